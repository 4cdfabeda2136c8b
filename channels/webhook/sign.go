package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// secretPrefix marks a signing secret
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
const secretPrefix = "whsec_"

// parseSecrets decodes signing secrets. The error counts them and never shows one.
func parseSecrets(texts []string) ([][]byte, error) {
	var secrets [][]byte
	for i, text := range texts {
		encoded, ok := strings.CutPrefix(text, secretPrefix)
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(secret) < 24 || len(secret) > 64 {
			return nil, fmt.Errorf("SIGNING_SECRET: number %d is not %q followed by 24 to 64 bytes in base64", i+1, secretPrefix)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// signature returns the value of webhook-signature: one signature for each secret, so that a receiver can change its own
// at leisure.
func signature(secrets [][]byte, id string, at time.Time, body []byte) string {
	var list []string
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + timestamp(at) + "."))
		mac.Write(body)
		list = append(list, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(list, " ")
}

func timestamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
