package network

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Where nodes' routes to other nodes' pods come from: the layer itself has
// entered them, or daemons tell each other by BGP.
const (
	Static = "static"
	BGP    = "bgp"
)

// RouteConfig is the configuration of where routes come from.
type RouteConfig struct {
	Routes string `json:"routes,omitempty" jsonschema:"enum=static,enum=bgp,default=static" jsonschema_description:"static: entered once. bgp: BIRD on every node tells the others which pods it has."`
	BFD    string `json:"bfd,omitempty" jsonschema:"default=100ms" jsonschema_description:"With bgp: time between the nodes' signs of life (BFD), 10ms to 10s; after three that are missing a node is lost. off: none, and hold counts."`
	Hold   string `json:"hold,omitempty" jsonschema:"default=90s" jsonschema_description:"With bgp: after so long without a message a node is lost (BGP's hold time), 3s to 1h, in whole seconds."`
}

// What is there if the study does not say, and what there can be.
const (
	off         = "off"
	defaultBFD  = 100 * time.Millisecond
	leastBFD    = 10 * time.Millisecond
	mostBFD     = 10 * time.Second
	bfdMisses   = 3
	defaultHold = 90 * time.Second
	leastHold   = 3 * time.Second // RFC 4271
	mostHold    = time.Hour
)

// Check finds all that is wrong with it.
func (c RouteConfig) Check() error {
	var errs []error
	if !slices.Contains([]string{"", Static, BGP}, c.Routes) {
		errs = append(errs, &model.ConfigError{Key: "routes", Text: fmt.Sprintf("is %q; it can be %s or %s", c.Routes, Static, BGP)})
	}
	if c.Routes != BGP {
		for key, value := range map[string]string{"bfd": c.BFD, "hold": c.Hold} {
			if value != "" {
				errs = append(errs, &model.ConfigError{Key: key, Text: "has no meaning without routes: " + BGP})
			}
		}
		return errors.Join(errs...)
	}
	if c.BFD != off && !within(c.BFD, leastBFD, mostBFD, time.Millisecond) {
		errs = append(errs, &model.ConfigError{Key: "bfd", Text: fmt.Sprintf("is %q; it can be %s or %s to %s in whole milliseconds", c.BFD, off, leastBFD, mostBFD)})
	}
	if !within(c.Hold, leastHold, mostHold, time.Second) {
		errs = append(errs, &model.ConfigError{Key: "hold", Text: fmt.Sprintf("is %q; it can be %s to 1h in whole seconds", c.Hold, leastHold)})
	}
	return errors.Join(errs...)
}

// within says whether a duration can be; none at all can.
func within(text string, least, most, whole time.Duration) bool {
	d, err := time.ParseDuration(text)
	return text == "" || err == nil && d >= least && d <= most && d%whole == 0
}

// bfd is the time between signs of life; 0: there are none.
func (c RouteConfig) bfd() time.Duration {
	if c.BFD == off {
		return 0
	}
	return parsedOr(c.BFD, defaultBFD)
}

func (c RouteConfig) hold() time.Duration { return parsedOr(c.Hold, defaultHold) }

// parsedOr reads what Check has found right.
func parsedOr(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return otherwise
}

// describe is the value of the fact.
func (c RouteConfig) describe() string {
	if c.Routes != BGP {
		return Static
	}
	loss := "no BFD"
	if bfd := c.bfd(); bfd > 0 {
		loss = fmt.Sprintf("BFD every %s, %d may be missing", bfd, bfdMisses)
	}
	return fmt.Sprintf("BGP (iBGP, every node with every other), hold time %s, %s", shortly(c.hold()), loss)
}

// shortly leaves out minutes and seconds that are none.
func shortly(d time.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}
