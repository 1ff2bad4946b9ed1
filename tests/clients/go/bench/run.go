package bench

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Patience is how long anything may take.
const Patience = 30 * time.Second

// Check is one thing a client must be able to rely on. It fails by panicking with a Failure.
type Check struct {
	Name string
	Run  func(*Bench)
}

// Failure is what a check panics with.
type Failure string

// Bench is what a check works on: a library, the cluster of this run, and names that no other run uses.
type Bench struct {
	Library            Library
	Cluster            Connection
	TransactionVersion int
	Admin              Admin

	run string
}

// Main runs the checks that the arguments name, all of them without any, and returns the exit status.
//
// The environment says where: TXNSIM_BOOTSTRAP, TXNSIM_TRANSACTION_VERSION, TXNSIM_RUN, and for sasl and tls
// TXNSIM_SASL_BOOTSTRAP, TXNSIM_TLS_BOOTSTRAP, TXNSIM_SECURITY_DIR.
func Main(library Library, extra []Check, names []string) int {
	checks := append(slices.Clone(checks), extra...)
	wanted, err := choose(checks, names)
	var b *Bench
	if err == nil {
		b, err = newBench(library)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return Report(wanted, func(c Check) { b.ask(c) })
}

// Report runs checks and prints a line for each, then the count; it returns the exit status.
func Report(checks []Check, run func(Check)) int {
	passed, failed := 0, 0
	for _, c := range checks {
		if reason := reasonToFail(func() { run(c) }); reason != "" {
			failed++
			fmt.Printf("FAIL %s: %s\n", c.Name, reason)
			continue
		}
		passed++
		fmt.Printf("PASS %s\n", c.Name)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		return 1
	}
	return 0
}

func choose(checks []Check, names []string) ([]Check, error) {
	if len(names) == 0 {
		return checks, nil
	}
	var wanted []Check
	for _, name := range names {
		found := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
		if found < 0 {
			var known []string
			for _, c := range checks {
				known = append(known, c.Name)
			}
			return nil, fmt.Errorf("no check %q; there are: %s", name, strings.Join(known, " "))
		}
		wanted = append(wanted, checks[found])
	}
	return wanted, nil
}

func newBench(library Library) (*Bench, error) {
	bootstrap, run := os.Getenv("TXNSIM_BOOTSTRAP"), os.Getenv("TXNSIM_RUN")
	level, err := strconv.Atoi(os.Getenv("TXNSIM_TRANSACTION_VERSION"))
	if err != nil || run == "" {
		return nil, errors.New("TXNSIM_TRANSACTION_VERSION and TXNSIM_RUN must be set")
	}
	return &Bench{
		Library:            library,
		Cluster:            Connection{Bootstrap: Addresses(bootstrap)},
		TransactionVersion: level,
		run:                run,
	}, nil
}

// Addresses of a list separated by commas.
func Addresses(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// ask runs one check with an admin client of its own, where the check is about the plain cluster.
func (b *Bench) ask(c Check) {
	if c.Name == "sasl" || c.Name == "tls" {
		c.Run(b)
		return
	}
	if len(b.Cluster.Bootstrap) == 0 {
		Fail("TXNSIM_BOOTSTRAP is not set")
	}
	admin, err := b.Library.NewAdmin(b.Cluster)
	OK("admin client", err)
	b.Admin = admin
	defer admin.Close()
	c.Run(b)
}

func reasonToFail(run func()) (reason string) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case Failure:
			reason = strings.ReplaceAll(string(found), "\n", " ")
		default:
			panic(found)
		}
	}()
	run()
	return ""
}

// Named is a name of this run.
func (b *Bench) Named(stem string) string { return b.run + "-" + stem }

// Fail ends the check.
func Fail(format string, arguments ...any) { panic(Failure(fmt.Sprintf(format, arguments...))) }

// OK ends the check if there is an error.
func OK(what string, err error) {
	if err != nil {
		Fail("%s: %v", what, err)
	}
}

// Must returns the value, or ends the check if there is an error.
func Must[T any](value T, err error) T {
	if err != nil {
		Fail("%v", err)
	}
	return value
}

// Expect ends the check unless both are deeply equal.
func Expect(what string, expected, found any) {
	if !reflect.DeepEqual(expected, found) {
		Fail("%s: expected %v, found %v", what, expected, found)
	}
}

// ExpectError ends the check unless the error is of the kind.
func ExpectError(what string, err error, kind func(error) bool) {
	if err == nil {
		Fail("%s: no error", what)
	}
	if !kind(err) {
		Fail("%s: the error is not the one for it: %v (%T)", what, err, err)
	}
}

// Await asks until the condition holds, and ends the check if it does not in time.
func Await(what string, condition func() bool) {
	for end := time.Now().Add(Patience); !condition(); {
		if time.Now().After(end) {
			Fail("not within %v: %s", Patience, what)
		}
		time.Sleep(10 * time.Millisecond) // pace of asking; what is waited for is the condition
	}
}
