package bookinfo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/hop"
)

// Serve is a server as a pod's process.
func Serve(ctx context.Context, file string) error {
	return hop.Main(ctx, file, func(j hop.Job) (hop.Handler, hop.Pool, error) {
		var s settings
		if err := json.Unmarshal(j.Config, &s); err != nil {
			return nil, hop.Pool{}, fmt.Errorf("reading its settings: %w", err)
		}
		h := s.handler(j.Service)
		if h == nil {
			return nil, hop.Pool{}, fmt.Errorf("the service %q is none of bookinfo's", j.Service)
		}
		return h, s.Pool, nil
	})
}

// The original's timeouts.
const (
	pageTimeout   = 3 * time.Second // productpage, of each call
	pageAttempts  = 2               // productpage, of reviews
	ratingsBlack  = 10 * time.Second
	ratingsRed    = 2500 * time.Millisecond
	versionRed    = 3
	maxIdentifier = 18 // digits that an int64 holds
)

func (s settings) handler(service string) hop.Handler {
	switch service {
	case productpage:
		return newFront(s).answer
	case details:
		return s.details
	case reviews:
		return s.reviews
	case ratings:
		return newRatings().answer
	}
	return nil
}

// below finds the number of a product in a path such as /details/0.
func below(path, prefix string) (id int64, ok bool) {
	rest, found := strings.CutPrefix(path, prefix)
	if !found || len(rest) > maxIdentifier {
		return 0, false
	}
	id, err := strconv.ParseInt(rest, 10, 64)
	return id, err == nil && id >= 0 && rest[0] != '+'
}

// encoded is an answer in JSON of what can always be encoded.
func encoded(status int, what any) hop.Answer {
	b, err := json.Marshal(what)
	if err != nil {
		return hop.Text(http.StatusInternalServerError, err.Error())
	}
	return hop.JSON(status, b)
}

type failure struct {
	Error string `json:"error"`
}

type health struct {
	Status string `json:"status"`
}

// book is what details knows of any product.
type book struct {
	ID        int64  `json:"id"`
	Author    string `json:"author"`
	Year      int    `json:"year"`
	Type      string `json:"type"`
	Pages     int    `json:"pages"`
	Publisher string `json:"publisher"`
	Language  string `json:"language"`
	ISBN10    string `json:"ISBN-10"`
	ISBN13    string `json:"ISBN-13"`
}

func (settings) details(_ context.Context, e *hop.Exchange) hop.Answer {
	path := e.Request.URL.Path
	if path == "/health" {
		return encoded(http.StatusOK, health{"Details is healthy"})
	}
	id, ok := below(path, "/details/")
	if !ok {
		return encoded(http.StatusBadRequest, failure{"please provide numeric product id"})
	}
	return encoded(http.StatusOK, book{
		ID: id, Author: "William Shakespeare", Year: 1595, Type: "paperback", Pages: 200, //nolint:mnd // the book's
		Publisher: "PublisherA", Language: "English", ISBN10: "1234567890", ISBN13: "123-1234567890",
	})
}

// starred is what ratings knows of a product.
type starred struct {
	ID      int64          `json:"id"`
	Ratings map[string]int `json:"ratings"`
}

// rater keeps what was rated, in memory.
type rater struct {
	mu    sync.Mutex
	rated map[int64]map[string]int
}

func newRatings() *rater { return &rater{rated: map[int64]map[string]int{}} }

func (r *rater) answer(_ context.Context, e *hop.Exchange) hop.Answer {
	path := e.Request.URL.Path
	if path == "/health" {
		return encoded(http.StatusOK, health{"Ratings is healthy"})
	}
	id, ok := below(path, "/ratings/")
	if !ok {
		return encoded(http.StatusBadRequest, failure{"please provide numeric product ID"})
	}
	if e.Request.Method == http.MethodPost {
		return r.rate(id, e.Body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stars := r.rated[id]
	if stars == nil {
		stars = map[string]int{"Reviewer1": 5, "Reviewer2": 4} //nolint:mnd // stars
	}
	return encoded(http.StatusOK, starred{id, stars})
}

// maxRated bounds the memory that rating takes.
const maxRated = 1000

func (r *rater) rate(id int64, body []byte) hop.Answer {
	var stars map[string]int
	if json.Unmarshal(body, &stars) != nil || stars == nil {
		return encoded(http.StatusBadRequest, failure{"please provide valid ratings JSON"})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rated[id] == nil && len(r.rated) >= maxRated {
		return encoded(http.StatusInsufficientStorage, failure{"too many products have ratings"})
	}
	r.rated[id] = stars
	return encoded(http.StatusOK, starred{id, stars})
}

// opinions are what reviews knows of a product.
type opinions struct {
	ID      string    `json:"id"`
	Reviews []opinion `json:"reviews"`
}

type opinion struct {
	Reviewer string `json:"reviewer"`
	Text     string `json:"text"`
	Rating   *stars `json:"rating,omitempty"`
}

// stars are a rating, or why there is none.
type stars struct {
	Stars int    `json:"stars,omitempty"`
	Color string `json:"color,omitempty"`
	Error string `json:"error,omitempty"`
}

// reviews are two, from version 2 on with stars.
func (s settings) reviews(ctx context.Context, e *hop.Exchange) hop.Answer {
	path := e.Request.URL.Path
	if path == "/health" {
		return encoded(http.StatusOK, health{"Reviews is healthy"})
	}
	id, ok := below(path, "/reviews/")
	if !ok {
		return hop.Text(http.StatusNotFound, "no such product\n")
	}
	all := opinions{ID: strconv.FormatInt(id, 10), Reviews: []opinion{
		{Reviewer: "Reviewer1", Text: "An extremely entertaining play by Shakespeare. The slapstick humour is refreshing!"},
		{Reviewer: "Reviewer2", Text: "Absolutely fun and entertaining. The play lacks thematic depth when compared to other plays by Shakespeare."},
	}}
	if s.Version == 1 {
		return encoded(http.StatusOK, all)
	}
	timeout, color := ratingsBlack, "black"
	if s.Version == versionRed {
		timeout, color = ratingsRed, "red"
	}
	r := e.Call(ctx, hop.Call{Service: ratings, Path: fmt.Sprintf("/ratings/%d", id), Timeout: timeout})
	var given starred
	bad := !r.OK() || json.Unmarshal(r.Body, &given) != nil
	for i := range all.Reviews {
		all.Reviews[i].Rating = &stars{Stars: given.Ratings[all.Reviews[i].Reviewer], Color: color}
		if bad {
			all.Reviews[i].Rating = &stars{Error: "Ratings service is currently unavailable"}
		}
	}
	return encoded(http.StatusOK, all) // as the original, whatever came of the ratings
}

// whole says whether every review has what it should have.
func (o opinions) whole() bool {
	for _, r := range o.Reviews {
		if r.Rating != nil && r.Rating.Error != "" {
			return false
		}
	}
	return true
}
