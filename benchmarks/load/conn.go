package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// A server that answers nothing for this long is broken, not slow.
	answerTimeout = 60 * time.Second
	maxFrameBytes = 256 << 20
)

// conn is one TCP connection that speaks Kafka's framing: requests out, answers in, in order.
// It belongs to one goroutine, or to one sender and one receiver.
type conn struct {
	net       net.Conn
	in        *bufio.Reader
	formatter *kmsg.RequestFormatter
	sent      int32 // correlation id of the last request written
	received  int32 // correlation id of the last answer read
	outBuf    []byte
	inBuf     []byte
}

func dial(address string) (*conn, error) {
	socket, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if socket.LocalAddr().String() == socket.RemoteAddr().String() {
		// Nobody listens, and the kernel gave us that very port: TCP connects to itself then.
		_ = socket.Close()
		return nil, fmt.Errorf("dial %s: connected to itself", address)
	}
	return &conn{
		net:       socket,
		in:        bufio.NewReaderSize(socket, 64<<10),
		formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID("load")),
	}, nil
}

func (c *conn) close() { _ = c.net.Close() }

// call sends one request and waits for its answer.
func (c *conn) call(request kmsg.Request, response kmsg.Response) error {
	if err := c.send(request); err != nil {
		return err
	}
	return c.receive(response)
}

func (c *conn) send(request kmsg.Request) error {
	c.sent++
	c.outBuf = c.formatter.AppendRequest(c.outBuf[:0], request, c.sent)
	_, err := c.net.Write(c.outBuf)
	return err
}

// encode makes a frame that sendFrame can send again and again, each time under a new correlation id.
func (c *conn) encode(request kmsg.Request) []byte {
	return c.formatter.AppendRequest(nil, request, 0)
}

func (c *conn) sendFrame(frame []byte) error {
	c.sent++
	binary.BigEndian.PutUint32(frame[8:], uint32(c.sent)) // after length, API key and version
	_, err := c.net.Write(frame)
	return err
}

// receive reads the next answer into response, whose version must be that of its request.
// Byte fields of response point into the connection's buffer until the next receive.
func (c *conn) receive(response kmsg.Response) error {
	if err := c.net.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return fmt.Errorf("%T v%d: %w", response, response.GetVersion(), err)
	}
	length := int(binary.BigEndian.Uint32(size[:]))
	if length < 4 || length > maxFrameBytes {
		return fmt.Errorf("%T: frame of %d bytes", response, length)
	}
	if cap(c.inBuf) < length {
		c.inBuf = make([]byte, length)
	}
	frame := c.inBuf[:length]
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return fmt.Errorf("%T v%d: %w", response, response.GetVersion(), err)
	}
	c.received++
	if got := int32(binary.BigEndian.Uint32(frame)); got != c.received {
		return fmt.Errorf("%T: correlation id %d, expected %d", response, got, c.received)
	}
	body := frame[4:]
	if response.IsFlexible() { // response header v1: an empty list of tagged fields
		if len(body) == 0 || body[0] != 0 {
			return fmt.Errorf("%T v%d: no empty tag list in the header", response, response.GetVersion())
		}
		body = body[1:]
	}
	if err := response.ReadFrom(body); err != nil {
		return fmt.Errorf("%T v%d: %w", response, response.GetVersion(), err)
	}
	return nil
}
