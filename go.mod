module github.com/windtunnel/windtunnel

go 1.26.8
