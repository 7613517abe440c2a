package main

import (
	"errors"
	"strings"
)

// splitWords splits a line into words as a POSIX shell does: blanks part words,
// single quotes keep everything, double quotes keep all but \", \\, \$ and \`, a
// backslash keeps the next character, and # at the start of a word begins a
// comment. Nothing is expanded.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			if inWord {
				words, inWord = append(words, word.String()), false
				word.Reset()
			}
		case c == '#' && !inWord:
			return words, nil
		case c == '\'' || c == '"' || c == '\\':
			inWord = true
			n, err := quoted(&word, line[i:])
			if err != nil {
				return nil, err
			}
			i += n - 1
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted adds what the quoting at the start of text stands for, and returns its length.
func quoted(word *strings.Builder, text string) (int, error) {
	switch text[0] {
	case '\\':
		if len(text) < 2 {
			return 0, errors.New("a backslash at the end of the line")
		}
		word.WriteByte(text[1])
		return 2, nil
	case '\'':
		body, _, ok := strings.Cut(text[1:], "'")
		if !ok {
			return 0, errors.New("a ' that is not closed")
		}
		word.WriteString(body)
		return len(body) + 2, nil
	}
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`", text[i+1]) >= 0:
			i++
			word.WriteByte(text[i])
		default:
			word.WriteByte(c)
		}
	}
	return 0, errors.New(`a " that is not closed`)
}
