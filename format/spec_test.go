package format

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fieldSizes is the types of field constants and how many bytes each field has.
var fieldSizes = map[string]int64{
	"u8": 1, "le16": 2, "le32": 4, "le64": 8, "be16": 2, "be32": 4, "be64": 8, "bytes4": 4, "bytes8": 8,
	"bytes16": 16, "bytes32": 32, "bytes60": 60, "bytes64": 64, "bytes68": 68,
}

// noImports stands in for imported packages: constants of this package do not
// need them, and what does need them is no constant.
type noImports struct{}

func (noImports) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

// packageScope is the names of this package, from its source.
func packageScope(t *testing.T) *types.Scope {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	names, err := fs.Glob(os.DirFS("."), "*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	p, _ := config.Check("format", set, files, nil)
	return p.Scope()
}

// codeConstant is a constant of the source: its value and, for a field, its type.
type codeConstant struct {
	value int64
	field string // "" if it is not an offset
}

// codeConstants is the constants that SPEC.md has to hold: the offset of each
// field and each exported number.
func codeConstants(t *testing.T, scope *types.Scope) map[string]codeConstant {
	t.Helper()
	all := map[string]codeConstant{}
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if !ok || c.Val().Kind() != constant.Int {
			continue
		}
		value, exact := constant.Int64Val(c.Val())
		require.True(t, exact, name)
		kind := strings.TrimPrefix(c.Type().String(), "format.")
		if fieldSizes[kind] == 0 {
			kind = ""
		}
		all[name] = codeConstant{value, kind}
	}
	return all
}

// specRow is a row of a table of SPEC.md, by the heads of its columns.
type specRow struct {
	line  int
	cells map[string]string
}

// specRows is all rows of all tables of SPEC.md.
func specRows(t *testing.T) (rows []specRow) {
	t.Helper()
	text, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	var heads []string
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			heads = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if heads == nil {
			heads = cells
			continue
		}
		require.Len(t, cells, len(heads), "SPEC.md:%d", i+1)
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		row := specRow{i + 1, map[string]string{}}
		for j, head := range heads {
			row.cells[head] = cells[j]
		}
		rows = append(rows, row)
	}
	return rows
}

// SPEC.md and the code hold the same constants: each row with a constant agrees
// with it in value, type and size, and no field and no exported number lacks a row.
func TestSpecConstants(t *testing.T) {
	code := codeConstants(t, packageScope(t))
	seen := map[string]int{}
	for _, row := range specRows(t) {
		name := row.cells["constant"]
		if name == "" {
			continue
		}
		where := fmt.Sprintf("SPEC.md:%d: %s", row.line, name)
		c, ok := code[name]
		require.True(t, ok, "%s is not a constant of the package", where)
		require.Zero(t, seen[name], "%s is in line %d too", where, seen[name])
		seen[name] = row.line
		if c.field == "" {
			require.Equal(t, c.value, specNumber(t, row.cells["value"]), where)
			continue
		}
		require.Equal(t, c.value, specNumber(t, row.cells["offset"]), where)
		kind, count := specType(t, row.cells["type"])
		require.Equal(t, c.field, kind, where)
		require.Equal(t, fieldSizes[kind]*count, specNumber(t, row.cells["size"]), where)
	}
	for name, c := range code {
		if c.field != "" || ast.IsExported(name) {
			require.NotZero(t, seen[name], "%s has no row in SPEC.md", name)
		}
	}
}

func specNumber(t *testing.T, cell string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(cell, 0, 64)
	require.NoError(t, err)
	return n
}

// specType splits a type such as "bytes16 × 48" into type and count.
func specType(t *testing.T, cell string) (kind string, count int64) {
	t.Helper()
	kind, times, many := strings.Cut(cell, " × ")
	if !many {
		return kind, 1
	}
	return kind, specNumber(t, times)
}

// The tables of features name each as Names does, and leave none out.
func TestSpecFeatures(t *testing.T) {
	profiles := []string{"default", "variant", "state", "read", "ignored", "read-only", "refused"}
	code := codeConstants(t, packageScope(t))
	listed := Features{}
	for _, row := range specRows(t) {
		if row.cells["profile"] == "" {
			continue
		}
		name := row.cells["constant"]
		require.Contains(t, profiles, row.cells["profile"], name)
		f := featureOf(name, uint32(code[name].value))
		listed = listed.With(f)
		want := f.String()
		if strings.HasPrefix(want, "FEATURE_") {
			want = "-"
		}
		require.Equal(t, want, row.cells["name"], "SPEC.md:%d", row.line)
	}
	all := Features{^Compat(0), ^Incompat(0), ^ROCompat(0)}
	require.Empty(t, all.Without(all.Unknown()).Without(listed).Names(), "features with a name, but without a row")
}

// featureOf is the feature of a constant, whose name begins with its kind.
func featureOf(name string, bit uint32) Features {
	switch {
	case strings.HasPrefix(name, "Incompat"):
		return Features{Incompat: Incompat(bit)}
	case strings.HasPrefix(name, "ROCompat"):
		return Features{ROCompat: ROCompat(bit)}
	}
	return Features{Compat: Compat(bit)}
}

var specCode = regexp.MustCompile("`([A-Za-z0-9.]+)`")

// Whoever is said to check or give something is there, and every field says who
// checks it.
func TestSpecNames(t *testing.T) {
	scope := packageScope(t)
	for _, row := range specRows(t) {
		for head, cell := range row.cells {
			for _, m := range specCode.FindAllStringSubmatch(cell, -1) {
				require.True(t, hasName(scope, m[1]), "SPEC.md:%d: there is no %s", row.line, m[1])
			}
			if head == "checked by" {
				plain := strings.Trim(specCode.ReplaceAllString(cell, ""), ", ")
				require.Contains(t, []string{"", "-", "fsck"}, plain, "SPEC.md:%d", row.line)
				require.NotEmpty(t, cell, "SPEC.md:%d", row.line)
			}
		}
	}
}

// hasName reports whether the package has an object, or a type a method, of that name.
func hasName(scope *types.Scope, name string) bool {
	owner, method, dotted := strings.Cut(name, ".")
	object := scope.Lookup(owner)
	if !dotted || object == nil {
		return object != nil
	}
	member, _, _ := types.LookupFieldOrMethod(types.NewPointer(object.Type()), true, object.Pkg(), method)
	return member != nil
}

// Within a structure fields neither overlap nor leave a gap that is not padding at
// its end: what the tables of superblock, descriptor and inode say covers all.
func TestSpecCovers(t *testing.T) {
	for prefix, size := range map[string]int64{"sb": 0x288, "gd": 0x40, "in": 0xa0} {
		next := int64(0)
		for _, row := range specRows(t) {
			name := row.cells["constant"]
			if row.cells["offset"] == "" || !strings.HasPrefix(name, prefix) || slices.Contains([]string{"sbChecksum", "inlineParent"}, name) {
				continue
			}
			require.Equal(t, next, specNumber(t, row.cells["offset"]), "SPEC.md:%d: %s", row.line, name)
			next += specNumber(t, row.cells["size"])
		}
		require.Equal(t, size, next, prefix)
	}
}
