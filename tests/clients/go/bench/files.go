package bench

import (
	cryptotls "crypto/tls"
	"crypto/x509"
	"errors"
	"os"
)

// TLSConfig is Go's own form of the files.
func TLSConfig(files Files) (*cryptotls.Config, error) {
	authority, err := os.ReadFile(files.Authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New(files.Authority + ": no certificate")
	}
	config := &cryptotls.Config{RootCAs: pool}
	if files.Certificate == "" {
		return config, nil
	}
	pair, err := cryptotls.LoadX509KeyPair(files.Certificate, files.Key)
	config.Certificates = []cryptotls.Certificate{pair}
	return config, err
}
