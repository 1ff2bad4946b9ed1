package txnsimtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Event is an event of the cluster's trace (docs/trace-kinds.md), or of kind "lost" with how many were, in Data.
type Event struct {
	Index       int64          `json:"i"`
	Microsecond int64          `json:"t"`
	Node        string         `json:"node"`
	Kind        string         `json:"k"`
	Causes      []int64        `json:"p"`
	Transaction string         `json:"tx"`
	Data        map[string]any `json:"d"`
}

// Events calls back for every event from now on, of these kinds if some are named, until the context is done, the stream
// ends, or the callback returns false.
func (c *Client) Events(ctx context.Context, onEvent func(Event) bool, kinds ...string) error {
	query := url.Values{"kind": kinds}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/api/v1/events?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	c.authorize(request)
	response, err := (&http.Client{}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return &Error{Status: response.StatusCode, Reason: string(text), Body: text}
	}
	return eachEvent(response.Body, onEvent)
}

func eachEvent(stream io.Reader, onEvent func(Event) bool) error {
	lines := bufio.NewReader(stream)
	eventKind := ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			eventKind = name
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			event := Event{Kind: eventKind}
			target := any(&event)
			if eventKind == "lost" {
				target = &event.Data
			}
			if err := json.Unmarshal([]byte(data), target); err != nil {
				return fmt.Errorf("%s: %w", data, err)
			}
			if !onEvent(event) {
				return nil
			}
		}
	}
}
