package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat: USER_HZ, 100 per second on Linux.
const clockTick = 10 * time.Millisecond

// window takes wall time and processor times at both ends of what is measured.
type window struct {
	serverPid int
	began     time.Time
	server    time.Duration
	own       time.Duration
}

// usage is what a window cost; ServerCPUSeconds is missing when the server's pid is not known.
type usage struct {
	Seconds          float64  `json:"seconds"`
	ServerCPUSeconds *float64 `json:"server_cpu_seconds,omitempty"`
	LoadCPUSeconds   float64  `json:"load_cpu_seconds"`
}

func openWindow(serverPid int) (window, error) {
	server, err := processCPU(serverPid)
	if err != nil {
		return window{}, err
	}
	return window{serverPid: serverPid, server: server, own: ownCPU(), began: time.Now()}, nil
}

func (w window) close() (usage, error) {
	elapsed := time.Since(w.began)
	server, err := processCPU(w.serverPid)
	if err != nil {
		return usage{}, err
	}
	used := usage{Seconds: elapsed.Seconds(), LoadCPUSeconds: (ownCPU() - w.own).Seconds()}
	if w.serverPid != 0 {
		seconds := (server - w.server).Seconds()
		used.ServerCPUSeconds = &seconds
	}
	return used, nil
}

// processCPU is utime + stime of a process with all its threads, dead ones included, and of the
// processes that it has started.
func processCPU(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in brackets may hold spaces; utime and stime are the 12th and 13th field after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		value, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += value
	}
	used := time.Duration(ticks) * clockTick
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		number, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		more, err := processCPU(number)
		if err != nil {
			return 0, err
		}
		used += more
	}
	return used, nil
}

// processRuns is false for a process that has ended, waited for by its parent or not.
func processRuns(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
	return state != "Z" && state != "X"
}

func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// percentileMs gives the q-quantile of latencies, which it sorts.
func percentileMs(latencies []time.Duration, q float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	slices.Sort(latencies)
	at := min(int(q*float64(len(latencies))), len(latencies)-1)
	return float64(latencies[at].Microseconds()) / 1000
}
