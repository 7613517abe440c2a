package main

import (
	"os"

	"drydock/internal/cli"
)

func main() { os.Exit(cli.Main("mkimg", newCommand)) }
