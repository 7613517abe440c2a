package build

// Check tells what is wrong with the options themselves: values out of range,
// unknown names, features that exclude each other. Run checks the same; Check
// is for those who want to tell such an error from one of the work.
func (o Options) Check() error { return (&builder{o: o}).options() }
