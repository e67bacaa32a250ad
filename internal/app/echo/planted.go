package echo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/model"
)

// Config is the app's configuration in a study.
type Config struct {
	// Planted are effects of a known size, to prove measurements by.
	Planted []Planted `json:"planted,omitempty" jsonschema_description:"Effects of a known size in some of the pods, to prove measurements by."`
}

// Planted is what some pods do to every request besides answering it.
type Planted struct {
	Pods  []string `json:"pods" jsonschema:"minItems=1" jsonschema_description:"The pods that do it, by name."`
	Delay string   `json:"delay,omitempty" jsonschema_description:"Answers wait so long, e.g. 200us; at most 10s."`
	Fail  string   `json:"fail,omitempty" jsonschema_description:"Share of requests that are answered with status 503, e.g. 1%."`
	Burn  string   `json:"burn,omitempty" jsonschema_description:"CPU time that every request costs besides, e.g. 100us; at most 10s."`
}

// Plant is what a server does to every request besides answering it.
type Plant model.Impairment

const maxPlanted = 10 * time.Second

// parse reads the configuration: by pod what is planted in it.
func parse(config json.RawMessage) (map[string]Plant, error) {
	var c Config
	if err := model.ReadConfig(config, &c); err != nil {
		return nil, err
	}
	all := map[string]Plant{}
	var errs []error
	for i, p := range c.Planted {
		at := "planted[" + strconv.Itoa(i) + "]"
		var one Plant
		var wrong [3]error
		one.Delay, wrong[0] = span(at+".delay", p.Delay)
		one.Burn, wrong[1] = span(at+".burn", p.Burn)
		one.Fail, wrong[2] = share(at+".fail", p.Fail)
		errs = append(errs, wrong[:]...)
		if len(p.Pods) == 0 {
			errs = append(errs, &model.ConfigError{Key: at + ".pods", Text: "names no pod"})
		}
		for _, pod := range p.Pods {
			if _, twice := all[pod]; twice {
				errs = append(errs, &model.ConfigError{Key: at + ".pods", Text: fmt.Sprintf("names %s again", pod)})
			}
			all[pod] = one
		}
	}
	return all, errors.Join(errs...)
}

func span(key, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxPlanted {
		return 0, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be a time such as 200us, at most %s", text, maxPlanted)}
	}
	return d, nil
}

func share(key, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !percent || err != nil || !(v >= 0 && v <= 100) {
		return 0, &model.ConfigError{Key: key, Text: fmt.Sprintf("is %q; it must be a share such as 1%%", text)}
	}
	return v / 100, nil
}

// unknownPods are pods that something is planted in and that no service has.
func unknownPods(planted map[string]Plant, t model.Topology) error {
	var errs []error
	for pod := range planted {
		if !slices.ContainsFunc(t.Services, func(s model.Service) bool { return slices.Contains(s.Pods, pod) }) {
			errs = append(errs, fmt.Errorf("deploying echo: something is planted in pod %q, which is in no service", pod))
		}
	}
	return errors.Join(errs...)
}

// arguments start a server that does it.
func (p Plant) arguments() []string {
	var all []string
	if p.Delay > 0 {
		all = append(all, "--plant-delay", p.Delay.String())
	}
	if p.Fail > 0 {
		all = append(all, "--plant-fail", strconv.FormatFloat(p.Fail, 'f', -1, 64))
	}
	if p.Burn > 0 {
		all = append(all, "--plant-burn", p.Burn.String())
	}
	return all
}
