package nginx_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/app/nginx"
	"github.com/windtunnel/windtunnel/internal/labtest"
	"github.com/windtunnel/windtunnel/internal/model"
)

func TestMain(m *testing.M) { labtest.Main(m, nil) }

func TestConformance(t *testing.T) { //nolint:paralleltest // one lab
	labtest.App(t, labtest.AppSuite{New: func(t *testing.T) model.App {
		t.Helper()
		app, err := nginx.Plugin().New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return app
	}})
}

func TestConfigurationProblemsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := nginx.Plugin().New([]byte(`{"keepalive_requests": -1, "body_bytes": -1}`))
	if err == nil || !strings.Contains(err.Error(), "keepalive_requests") || !strings.Contains(err.Error(), "body_bytes") {
		t.Errorf("got %v", err)
	}
	if _, err := nginx.Plugin().New([]byte(`{"bodybytes": 1}`)); err == nil || !strings.Contains(err.Error(), "body_bytes") {
		t.Errorf("an unknown key: %v", err)
	}
}
