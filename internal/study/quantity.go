package study

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of requests per second, above 0 and at most MaxRate.
// Written "2000/s" or as a plain number.
type Rate float64

// Percent is a share from 0 to 1, written "5%" or "99.9%".
type Percent float64

// Duration is a length of time from 0 to MaxDuration, written with units as
// "10s", "500ms" or "1m30s".
type Duration time.Duration

// Bytes is an amount of memory from 0 to MaxBytes, written "64KiB" or "50MB".
type Bytes uint64

// BitRate is a link's speed in bits per second, from 1 kbit/s to MaxBitRate,
// written "100Mbit/s".
type BitRate uint64

// Name is a DNS label: 1 to 63 lower-case letters, digits and inner hyphens.
// Names end up in host names, paths and gates.
type Name string

// The largest quantities. They are far beyond what can be tested: their job is
// to catch slips of the keyboard.
const (
	MaxRate     Rate    = 10_000_000
	MaxDuration         = Duration(24 * time.Hour)
	MaxBytes    Bytes   = 1 << 50
	MinBitRate  BitRate = 1_000
	MaxBitRate  BitRate = 1_000_000_000_000
	maxName             = 63
	patternName         = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	patternRate         = `^[0-9]+(\.[0-9]+)?(/s)?$`
	// The unit is not optional: 10 what?
	patternPercent  = `^[0-9]+(\.[0-9]+)?%$`
	patternDuration = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	patternBytes    = `^([0-9]+(?:\.[0-9]+)?)(B|kB|KiB|MB|MiB|GB|GiB|TB|TiB)$`
	patternBitRate  = `^([0-9]+(?:\.[0-9]+)?)(kbit|Mbit|Gbit)/s$`
)

var (
	regexName     = regexp.MustCompile(patternName)
	regexRate     = regexp.MustCompile(patternRate)
	regexPercent  = regexp.MustCompile(patternPercent)
	regexDuration = regexp.MustCompile(patternDuration)
	regexBytes    = regexp.MustCompile(patternBytes)
	regexBitRate  = regexp.MustCompile(patternBitRate)
)

// ParseRate reads a rate such as "2000/s".
func ParseRate(s string) (Rate, error) {
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is negative: a rate is above zero", s)
	}
	if !regexRate.MatchString(s) {
		return 0, fmt.Errorf("%q is not a rate: write requests per second, such as 2000/s", s)
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "/s"), 64)
	switch {
	case err != nil || f > float64(MaxRate):
		return 0, fmt.Errorf("%q is too high: at most %.0f/s", s, float64(MaxRate))
	case f <= 0:
		return 0, fmt.Errorf("%q is zero: a rate is above zero", s)
	}
	return Rate(f), nil
}

// ParsePercent reads a share such as "2.5%", from 0% to 100%.
func ParsePercent(s string) (Percent, error) {
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is negative: a share is 0%% to 100%%", s)
	}
	if !regexPercent.MatchString(s) {
		return 0, fmt.Errorf("%q is not a percentage: write it with its sign, such as 5%%", s)
	}
	// The decimal point is moved in the text: 99.9/100 would not be 0.999.
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%")+"e-2", 64)
	if err != nil || f > 1 {
		return 0, fmt.Errorf("%q is more than 100%%", s)
	}
	return Percent(f), nil
}

// ParseDuration reads a length of time such as "1m30s".
func ParseDuration(s string) (Duration, error) {
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q is negative: time only goes forward", s)
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit: write %ss or %sms", s, s, s)
	}
	if !regexDuration.MatchString(s) {
		return 0, fmt.Errorf("%q is not a duration: write it with units, such as 500ms, 10s or 1m30s", s)
	}
	t, err := time.ParseDuration(s)
	if err != nil || t > time.Duration(MaxDuration) {
		return 0, fmt.Errorf("%q is too long: at most %s", s, time.Duration(MaxDuration))
	}
	return Duration(t), nil
}

// ParseBytes reads an amount of memory such as "50MiB"; it must come to whole
// bytes.
func ParseBytes(s string) (Bytes, error) {
	m := regexBytes.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not an amount of memory: write it with its unit, such as 64KiB or 50MB", s)
	}
	unit := map[string]float64{
		"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[m[2]]
	f, err := strconv.ParseFloat(m[1], 64)
	f *= unit
	switch {
	case err != nil || f > float64(MaxBytes):
		return 0, fmt.Errorf("%q is too much: at most %dTiB", s, MaxBytes>>40)
	case f != math.Trunc(f):
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	}
	return Bytes(f), nil
}

// ParseBitRate reads a link's speed such as "100Mbit/s".
func ParseBitRate(s string) (BitRate, error) {
	m := regexBitRate.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a link speed: write kbit/s, Mbit/s or Gbit/s, such as 100Mbit/s", s)
	}
	unit := map[string]float64{"kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}[m[2]]
	f, err := strconv.ParseFloat(m[1], 64)
	f = math.Round(f * unit)
	if err != nil || f > float64(MaxBitRate) || f < float64(MinBitRate) {
		return 0, fmt.Errorf("%q is out of range: 1kbit/s to 1000Gbit/s", s)
	}
	return BitRate(f), nil
}

// ParseName checks that s is a DNS label.
func ParseName(s string) (Name, error) {
	if len(s) > maxName {
		return "", fmt.Errorf("%q is too long: at most %d letters", s, maxName)
	}
	if !regexName.MatchString(s) {
		return "", fmt.Errorf("%q is not a name: lower-case letters, digits and inner hyphens only", s)
	}
	return Name(s), nil
}

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(b []byte) (err error) { *r, err = ParseRate(string(b)); return err }

// UnmarshalText is ParsePercent.
func (p *Percent) UnmarshalText(b []byte) (err error) { *p, err = ParsePercent(string(b)); return err }

// UnmarshalText is ParseDuration.
func (t *Duration) UnmarshalText(b []byte) (err error) {
	*t, err = ParseDuration(string(b))
	return err
}

// UnmarshalText is ParseBytes.
func (n *Bytes) UnmarshalText(b []byte) (err error) { *n, err = ParseBytes(string(b)); return err }

// UnmarshalText is ParseBitRate.
func (r *BitRate) UnmarshalText(b []byte) (err error) { *r, err = ParseBitRate(string(b)); return err }

// UnmarshalText is ParseName.
func (n *Name) UnmarshalText(b []byte) (err error) { *n, err = ParseName(string(b)); return err }
