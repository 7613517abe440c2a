package main

import (
	"os"

	"drydock/internal/cli"
)

func main() { os.Exit(cli.Main("imgwrite", newCommand)) }
