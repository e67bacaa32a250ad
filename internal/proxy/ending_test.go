package proxy

import (
	"bytes"
	"testing"
)

const sockets = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3A9A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 73 1 0000000000000000 100 0 0 10 0
   1: 0300128AC:0050 020012AC:9C40 04 00000000:00000001 01:00000014 00000000     0        0 0 3 0000000000000000
   2: 030012AC:0050 020012AC:9C41 09 00000000:00000001 01:00000014 00000000     0        0 0 3 0000000000000000
   3: 030012AC:0050 020012AC:9C42 06 00000000:00000000 03:00000E10 00000000     0        0 0 3 0000000000000000
   4: 030012AC:0050 020012AC:9C43 0B 00000000:00000000 03:00000E10 00000000     0        0 0 3 0000000000000000
`

func TestEnding(t *testing.T) {
	t.Parallel()
	if got := ending([]byte(sockets)); got != 3 {
		t.Errorf("%d connections are about to end, want 3", got)
	}
}

func FuzzEnding(f *testing.F) {
	f.Add([]byte(sockets))
	f.Fuzz(func(t *testing.T, table []byte) {
		if got := ending(table); got > bytes.Count(table, []byte("\n"))+1 {
			t.Errorf("%d connections in %q", got, table)
		}
	})
}
