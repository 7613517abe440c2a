// Package tidy holds the project to its own rules: which package may import
// which, how long a function may be, what every package documents, what the
// README may claim. Its test runs the rules over the whole tree; another one
// shows each rule a tree that breaks it, so that no rule is true of everything.
//
//	Check(os.DirFS(root))   findings, in order of file and line
//	imports.go              the table of who imports whom, inside and outside
//	source.go               rules about one source file at a time
//	project.go              rules about the tree: files, go.mod, README
package tidy
