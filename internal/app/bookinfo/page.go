package bookinfo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/windtunnel/windtunnel/internal/hop"
)

const htmlType = "text/html; charset=utf-8"

type product struct {
	ID    int64         `json:"id"`
	Title string        `json:"title"`
	HTML  template.HTML `json:"descriptionHtml"`
}

// products are all there are.
func products() []product {
	return []product{{0, "The Comedy of Errors", `<a href="https://en.wikipedia.org/wiki/The_Comedy_of_Errors">Wikipedia Summary</a>: The Comedy of Errors is one of <b>William Shakespeare's</b> early plays. It is his shortest and one of his most farcical comedies, with a major part of the humour coming from slapstick and mistaken identity, in addition to puns and word play.`}}
}

// front is the service productpage.
type front struct {
	settings

	index hop.Answer
	page  *template.Template
}

func newFront(s settings) *front {
	return &front{
		settings: s, page: template.Must(template.New("page").Parse(page)),
		index: hop.Answer{Status: http.StatusOK, Type: htmlType, Body: []byte(index)},
	}
}

// answer has all of productpage's routes.
func (f *front) answer(ctx context.Context, e *hop.Exchange) hop.Answer {
	path, method := e.Request.URL.Path, e.Request.Method
	switch {
	case path == "/" || path == "/index.html":
		return f.index
	case path == "/health":
		return hop.Text(http.StatusOK, "Product page is healthy")
	case path == "/login" && method == http.MethodPost:
		return session(e)
	case path == "/logout":
		return back("", -1)
	case path == "/productpage":
		return f.show(ctx, e)
	case path == "/api/v1/products":
		return encoded(http.StatusOK, products())
	}
	return f.api(ctx, e)
}

// api answers /api/v1/products/ID, and below it /reviews and /ratings.
func (f *front) api(ctx context.Context, e *hop.Exchange) hop.Answer {
	rest, ok := strings.CutPrefix(e.Request.URL.Path, "/api/v1/products/")
	text, what, _ := strings.Cut(rest, "/")
	id, number := below("/"+text, "/")
	if !ok || !number {
		return hop.Text(http.StatusNotFound, "there is no such page\n")
	}
	var got part
	switch what {
	case "":
		got = ask(ctx, e, details, id, 1)
	case reviews:
		got = ask(ctx, e, reviews, id, pageAttempts)
		var all opinions
		if f.Honest && got.read(&all) == "" && !all.whole() {
			got.status = http.StatusServiceUnavailable
		}
	case ratings:
		got = ask(ctx, e, ratings, id, 1)
	default:
		return hop.Text(http.StatusNotFound, "there is no such page\n")
	}
	return hop.JSON(got.status, got.body)
}

// part is what productpage got of a page: its status, and the answer or, in
// the same form, that there is none.
type part struct {
	status int
	body   []byte
}

// ask has the original's timeouts, attempts and words.
func ask(ctx context.Context, e *hop.Exchange, service string, id int64, attempts int) part {
	r := e.Call(ctx, hop.Call{Service: service, Path: fmt.Sprintf("/%s/%d", service, id), Timeout: pageTimeout, Attempts: attempts})
	if r.Err == nil && r.Status == http.StatusOK {
		return part{r.Status, r.Body}
	}
	status := http.StatusInternalServerError
	if r.Err == nil {
		status = r.Status
	}
	sorry := encoded(status, failure{"Sorry, product " + service + " are currently unavailable for this book."})
	return part{sorry.Status, sorry.Body}
}

// shown is what the page is made from.
type shown struct {
	Product       product
	User          string
	Details       book
	DetailsStatus int
	DetailsError  string
	Reviews       opinions
	ReviewsStatus int
	ReviewsError  string
}

// show makes the page: details first, then reviews, as in the original.
func (f *front) show(ctx context.Context, e *hop.Exchange) hop.Answer {
	v := shown{Product: products()[0]}
	if c, err := e.Request.Cookie(cookie); err == nil {
		v.User = c.Value
		e.Request.Header.Set("End-User", v.User) // is handed on
	}
	got := ask(ctx, e, details, v.Product.ID, 1)
	v.DetailsStatus, v.DetailsError = got.status, got.read(&v.Details)
	got = ask(ctx, e, reviews, v.Product.ID, pageAttempts)
	v.ReviewsStatus, v.ReviewsError = got.status, got.read(&v.Reviews)
	a := hop.Answer{Status: http.StatusOK, Type: htmlType}
	if f.Honest && (v.DetailsError != "" || v.ReviewsError != "" || !v.Reviews.whole()) {
		a.Status = http.StatusServiceUnavailable
	}
	for i := range v.Reviews.Reviews {
		if r := &v.Reviews.Reviews[i]; f.Plain && r.Rating != nil && r.Rating.Error == "" {
			r.Rating = nil
		}
	}
	var b bytes.Buffer
	if err := f.page.Execute(&b, v); err != nil {
		return hop.Text(http.StatusInternalServerError, err.Error()+"\n")
	}
	a.Body = b.Bytes()
	return a
}

// read decodes a part, or says what is wrong with it.
func (p part) read(into any) (sorry string) {
	var f failure
	if p.status != http.StatusOK {
		if json.Unmarshal(p.body, &f) != nil || f.Error == "" {
			f.Error = http.StatusText(p.status)
		}
		return f.Error
	}
	if err := json.Unmarshal(p.body, into); err != nil {
		return "the answer cannot be read"
	}
	return ""
}

// cookie holds the name of who has logged in, as nothing is protected by it.
const cookie = "session"

func session(e *hop.Exchange) hop.Answer {
	form, err := url.ParseQuery(string(e.Body))
	user := form.Get("username")
	if err != nil || user == "" || len(user) > 100 || strings.ContainsFunc(user, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`",;\`, r) }) {
		return hop.Text(http.StatusBadRequest, "a username is missing, or has other characters than a cookie can\n")
	}
	return back(user, 0)
}

// back sets the cookie, or removes it, and sends the user to the page.
func back(user string, age int) hop.Answer {
	c := http.Cookie{Name: cookie, Value: user, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode} //nolint:gosec // G124: pods speak HTTP, and nothing is protected
	return hop.Answer{Status: http.StatusFound, Header: http.Header{"Location": {"/productpage"}, "Set-Cookie": {c.String()}}}
}
