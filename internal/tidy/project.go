package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// requiredFiles are what a newcomer and the checks find at the top of the tree.
var requiredFiles = []string{"README.md", "ARCHITECTURE.md", "format/SPEC.md", ".ci/run", "go.mod"}

// checkFiles looks for the files that every state of the project has.
func checkFiles(t *tree, report report) {
	for _, name := range requiredFiles {
		if _, ok := t.files[name]; !ok {
			report(name, 0, "file is missing")
		}
	}
	if !strings.Contains(t.files[".ci/run"], "\n"+testCommand) {
		report(".ci/run", 0, "does not run README's test command, %s", testCommand)
	}
}

// requirement is a direct requirement in go.mod.
var requirement = regexp.MustCompile(`^(?:require )?\s*([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`)

// checkGoMod holds the direct requirements to the list of libraries.
func checkGoMod(t *tree, report report) {
	text := t.files["go.mod"]
	if !strings.HasPrefix(text, "module "+modulePath+"\n") {
		report("go.mod", 1, "want module %s", modulePath)
	}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		if strings.HasPrefix(line, "replace ") {
			report("go.mod", number, "replaces a module")
		}
		match := requirement.FindStringSubmatch(line)
		if match != nil && len(libraries[moduleOf(match[1])]) == 0 {
			report("go.mod", number, "%s is not on the list of libraries", match[1])
		}
	}
}

// mdLink is a link of a Markdown text to a file of the tree.
var mdLink = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

// checkLinks looks for links to files that are not there.
func checkLinks(t *tree, report report) {
	for _, name := range sortedKeys(t.files) {
		if path.Ext(name) != ".md" {
			continue
		}
		number := 0
		for line := range strings.SplitSeq(t.files[name], "\n") {
			number++
			for _, match := range mdLink.FindAllStringSubmatch(line, -1) {
				if !t.has(path.Join(path.Dir(name), match[1])) {
					report(name, number, "link to %s leads nowhere", match[1])
				}
			}
		}
	}
}

// The commands that are the whole set-up on a machine with only Go.
const (
	firstCommand = "go run ./cmd/mkimg rootfs.img --from ."
	testCommand  = "go test ./..."
)

// Parts of a command line in the README.
var (
	localPath = regexp.MustCompile(`^\./[a-z][\w/-]*$`)
	flagName  = regexp.MustCompile("(?:^|[\\s`|(\\[])--([a-z][a-z-]*)")
)

// hostCommands are the programs of other people that README's blocks may use.
var hostCommands = []string{"go", "cd", "tar", "sudo", "mount", "sh", "cat", "ls", "cmp", "echo", "e2fsck", "sfdisk", "git", "mkdir"}

// checkReadme looks in README.md for set-up commands that are missing, commands
// that do not exist, and flags that no command has.
func checkReadme(t *tree, report report) {
	commands := codeLines(t.files["README.md"])
	setUp := []string{firstCommand, testCommand}
	for i, want := range setUp {
		if i >= len(commands) || commands[i].text != want {
			report("README.md", 0, "command %d is not %q: set-up comes first", i+1, want)
		}
	}
	for _, c := range commands {
		if !t.knows(c.text) {
			report("README.md", c.number, "command does not exist: %s", c.text)
		}
	}
	for _, flag := range flagName.FindAllStringSubmatch(t.files["README.md"], -1) {
		if !t.hasFlag(flag[1]) {
			report("README.md", 0, "no command has the flag --%s", flag[1])
		}
	}
}

// numbered is a line of a file.
type numbered struct {
	number int
	text   string
}

// hereDocument is the start of a document in a shell command.
var hereDocument = regexp.MustCompile(`<<'(\w+)'`)

// codeLines returns the command lines in the README's sh blocks, without the
// documents that they hold.
func codeLines(text string) []numbered {
	var commands []numbered
	inside, number, end := false, 0, ""
	for line := range strings.SplitSeq(text, "\n") {
		number++
		switch line = strings.TrimSpace(line); {
		case end != "":
			if line == end {
				end = ""
			}
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
		case inside && line != "" && line[0] != '#':
			command, _, _ := strings.Cut(line, "   #")
			commands = append(commands, numbered{number, strings.TrimSpace(command)})
			if here := hereDocument.FindStringSubmatch(line); here != nil {
				end = here[1]
			}
		}
	}
	return commands
}

// knows tells whether the programs and folders that a command line starts with exist.
func (t *tree) knows(command string) bool {
	words := strings.Fields(command)
	for _, word := range words {
		if localPath.MatchString(word) && words[0] == "go" && !t.has(path.Clean(word)) {
			return false
		}
	}
	for len(words) > 1 && strings.Contains(words[0], "=") { // NAME=value in front
		words = words[1:]
	}
	return slices.Contains(hostCommands, words[0]) || t.has("cmd/"+words[0])
}

// hasFlag tells whether a command declares the flag, or cobra does so itself.
func (t *tree) hasFlag(name string) bool {
	if name == "help" || name == "version" {
		return true
	}
	for _, s := range t.code() {
		if (isCommand(s.dir) || s.dir == "internal/cli") && strings.Contains(t.files[s.path], `"`+name+`"`) {
			return true
		}
	}
	return false
}
