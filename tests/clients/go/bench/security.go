package bench

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// users of `txnsim serve --security demo`, by mechanism.
var users = map[string]Login{
	"SCRAM-SHA-256": {"SCRAM-SHA-256", "scram-user", "scram-user-secret"},
	"SCRAM-SHA-512": {"SCRAM-SHA-512", "scram-user", "scram-user-secret"},
	"PLAIN":         {"PLAIN", "plain-user", "plain-user-secret"},
	"OAUTHBEARER":   {"OAUTHBEARER", "oauth-user", ""},
}

func sasl(b *Bench) {
	authority := filepath.Join(setting("TXNSIM_SECURITY_DIR"), "ca.pem")
	connection := func(login Login) Connection {
		at := Addresses(setting("TXNSIM_SASL_BOOTSTRAP"))
		return Connection{Bootstrap: at, SASL: &login, TLS: &Files{Authority: authority}}
	}
	for _, mechanism := range b.Library.Mechanisms() {
		login := users[mechanism]
		b.transactionalCore("sasl-"+strings.ToLower(mechanism), connection(login))
		if mechanism == "OAUTHBEARER" {
			continue // has no password
		}
		login.Password = "not-" + login.Password
		ExpectError("wrong password of "+mechanism, b.Library.Log(connection(login)), b.Library.WrongPassword)
	}
}

func tls(b *Bench) {
	directory := setting("TXNSIM_SECURITY_DIR")
	b.transactionalCore("tls", Connection{
		Bootstrap: Addresses(setting("TXNSIM_TLS_BOOTSTRAP")),
		TLS: &Files{
			Authority:   filepath.Join(directory, "ca.pem"),
			Certificate: filepath.Join(directory, "tls-user.pem"),
			Key:         filepath.Join(directory, "tls-user.key"),
		},
	})
}

// transactionalCore: an abort, a commit and what both kinds of readers see, all through this connection.
func (b *Bench) transactionalCore(stem string, through Connection) {
	authority := &Files{Authority: filepath.Join(setting("TXNSIM_SECURITY_DIR"), "ca.pem")}
	super := Connection{
		Bootstrap: Addresses(setting("TXNSIM_SASL_BOOTSTRAP")),
		SASL:      &Login{"SCRAM-SHA-512", "admin", "admin-secret"},
		TLS:       authority,
	}
	admin, err := b.Library.NewAdmin(super)
	OK("admin client of "+stem, err)
	defer admin.Close()
	inside := *b
	inside.Cluster, inside.Admin = through, admin
	partitions := inside.WideTopic(stem)
	producer := inside.Transactional(stem)
	defer producer.Close()
	Begin(producer)
	for _, to := range partitions {
		Send(producer, to, "aborted")
	}
	Abort(producer)
	Begin(producer)
	for _, to := range partitions {
		Send(producer, to, "committed")
	}
	Commit(producer)
	for _, from := range partitions {
		inside.AwaitCommitted(from, "committed")
		inside.ExpectValues(from, ReadUncommitted, "aborted", "committed")
	}
}

func setting(name string) string {
	value := os.Getenv(name)
	if value == "" {
		Fail("%s is not set", name)
	}
	return value
}

// UnsecuredToken is a token that nobody has signed (RFC 7515, algorithm "none"), as KIP-255 has them for tests, and its end.
func UnsecuredToken(user string) (token string, end time.Time) {
	start := time.Now()
	end = start.Add(time.Hour)
	part := func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		OK("token", err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	claims := map[string]any{"sub": user, "iat": start.Unix(), "exp": end.Unix()}
	return part(map[string]any{"alg": "none"}) + "." + part(claims) + ".", end
}
