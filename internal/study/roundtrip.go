package study

import (
	_ "embed" // the table is part of the program
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed roundtrips.csv
var roundTrips string

// RoundTrip is how far apart two places are in one cloud's network.
type RoundTrip struct {
	Cloud string
	A, B  string
	RTT   time.Duration
	// Source says where the figure was published and of what time it is.
	Source string
}

// RoundTrips is the built-in table of round trips between regions of clouds.
// Its columns: cloud, the two places, milliseconds, source.
func RoundTrips() []RoundTrip {
	r := csv.NewReader(strings.NewReader(roundTrips))
	r.Comment = '#'
	const columns = 5
	r.FieldsPerRecord = columns
	rows, err := r.ReadAll()
	if err != nil {
		return nil // a test reads the table
	}
	var all []RoundTrip
	for _, row := range rows {
		ms, err := strconv.ParseFloat(row[3], 64)
		if err != nil {
			return nil // as above
		}
		all = append(all, RoundTrip{row[0], row[1], row[2], time.Duration(ms * float64(time.Millisecond)), sources()[row[4]]})
	}
	return all
}

// RoundTripPlaces are the places of the table, sorted.
func RoundTripPlaces() []string {
	var all []string
	for _, r := range RoundTrips() {
		all = append(all, r.A, r.B)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sources are what the table's last column stands for.
func sources() map[string]string {
	return map[string]string{
		"azure": "Microsoft, Azure network round-trip latency statistics, medians of the 30 days to 30 July 2026, " +
			"learn.microsoft.com/azure/networking/azure-network-latency",
		"ibm": "IBM Cloud, VPC network latency, means of 20 December 2025 to 18 January 2026, github.com/ibm-cloud-docs/vpc",
		"aws": "means as of April 2017, acomputerscientistlearnsaws.blogspot.com/2017/04/aws-regions.html",
		"gcp": "J. Nicholas, thesis, Universitas Indonesia, May 2023: round trip of requests, asia-southeast1 to australia-southeast1",
	}
}
