package kfake

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// control looks at a request on its way, and may answer in the broker's place.
type control func(kmsg.Request) (kmsg.Response, error, bool)

// hooks are the controls of a cluster by API key.
type hooks struct {
	mu    sync.Mutex
	byKey map[int16][]*control
}

// ControlKey has a function look at every request of a key. One that has answered is not asked again.
func (c *Cluster) ControlKey(key int16, function func(kmsg.Request) (kmsg.Response, error, bool)) {
	c.hooks.mu.Lock()
	defer c.hooks.mu.Unlock()
	if c.hooks.byKey == nil {
		c.hooks.byKey = map[int16][]*control{}
	}
	one := control(function)
	c.hooks.byKey[key] = append(c.hooks.byKey[key], &one)
}

// Fault is an error that one request is answered with.
type Fault struct {
	Keys []kmsg.Key
	Err  *kerr.Error
	When func(kmsg.Request) bool
}

// Fault arms it, once.
func (c *Cluster) Fault(fault Fault) {
	for _, key := range fault.Keys {
		c.ControlKey(key.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
			if fault.When != nil && !fault.When(request) {
				return nil, nil, false
			}
			answer := request.ResponseKind()
			reflect.ValueOf(answer).Elem().FieldByName("ErrorCode").SetInt(int64(fault.Err.Code))
			return answer, nil, true
		})
	}
}

// answer of a control, or none. Controls run one at a time, as in the original.
func (h *hooks) answer(key int16, request func() kmsg.Request) kmsg.Response {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.byKey[key] {
		// An error in place of an answer would cut the connection; none of the tests asks for that.
		if answer, _, handled := (*one)(request()); handled {
			h.byKey[key] = slices.DeleteFunc(h.byKey[key], func(each *control) bool { return each == one })
			return answer
		}
	}
	return nil
}

// relay is a listener in front of a broker.
type relay struct {
	listener net.Listener
	hooks    *hooks

	mu    sync.Mutex
	conns []net.Conn
}

// newRelays at ports in a row, which are ours from now on, below those that Linux gives to outgoing connections.
func newRelays(count int, hooks *hooks) ([]*relay, error) {
	var err error
	for range 1000 {
		first := 12_000 + rand.IntN(20_000-count)
		var relays []*relay
		for n := range count {
			var listener net.Listener
			if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+n)); err != nil {
				break
			}
			relays = append(relays, &relay{listener: listener, hooks: hooks})
		}
		if len(relays) == count {
			return relays, nil
		}
		for _, one := range relays {
			one.close()
		}
	}
	return nil, err
}

func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
}

// accept clients of a broker from now on; those that have come already wait in the listener's queue.
func (r *relay) accept(address string) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", address)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, broker)
		r.mu.Unlock()
		var writing sync.Mutex // to the client: the broker's answers and those of controls
		go r.requests(client, broker, &writing)
		go answers(client, broker, &writing)
	}
}

func (r *relay) requests(client, broker net.Conn, writing *sync.Mutex) {
	defer client.Close()
	defer broker.Close()
	for {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		if answer := r.answerOf(frame[4:]); answer != nil {
			writing.Lock()
			_, err = client.Write(answer)
			writing.Unlock()
		} else {
			_, err = broker.Write(frame)
		}
		if err != nil {
			return
		}
	}
}

func answers(client, broker net.Conn, writing *sync.Mutex) {
	defer client.Close()
	defer broker.Close()
	for {
		frame, err := readFrame(broker)
		if err != nil {
			return
		}
		writing.Lock()
		_, err = client.Write(frame)
		writing.Unlock()
		if err != nil {
			return
		}
	}
}

// readFrame with its length in front.
func readFrame(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	frame := append(length[:], make([]byte, binary.BigEndian.Uint32(length[:]))...)
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}

// answerOf a request in the broker's place, as a frame; none if no control wants it.
func (r *relay) answerOf(body []byte) []byte {
	key, version := int16(binary.BigEndian.Uint16(body)), int16(binary.BigEndian.Uint16(body[2:]))
	correlation := body[4:8]
	answer := r.hooks.answer(key, func() kmsg.Request { return parse(key, version, body[8:]) })
	if answer == nil {
		return nil
	}
	answer.SetVersion(version)
	frame := append(make([]byte, 4), correlation...)
	if answer.IsFlexible() {
		frame = append(frame, 0) // no tagged fields in the header
	}
	frame = answer.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// parse a request from behind its correlation id.
func parse(key, version int16, rest []byte) kmsg.Request {
	request := kmsg.RequestForKey(key)
	request.SetVersion(version)
	if length := int16(binary.BigEndian.Uint16(rest)); length > 0 {
		rest = rest[length:] // the client's id
	}
	rest = rest[2:]
	if request.IsFlexible() {
		rest = rest[1:] // no client of these tests sends tagged fields in the header
	}
	if err := request.ReadFrom(rest); err != nil {
		panic(err)
	}
	return request
}
