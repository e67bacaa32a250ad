package bookinfo

const index = `<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Simple Bookstore App</title></head>
<body><h3>Hello! This is a simple bookstore application consisting of three services as shown below</h3>
<ul><li><a href="/productpage?u=normal">Normal user</a></li><li><a href="/productpage?u=test">Test user</a></li></ul>
</body></html>
`

const page = `<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Simple Bookstore App</title></head>
<body>
<p>{{if .User}}{{.User}} (<a href="/logout">sign out</a>){{else}}<a href="/login">Sign in</a>{{end}}</p>
<h3>{{.Product.Title}}</h3>
<p>Summary: {{.Product.HTML}}</p>
{{if .DetailsError}}<h4>Error fetching product details!</h4>
<p>{{.DetailsError}}</p>
{{else}}<h4>Book Details</h4>
<dl>
<dt>ISBN-10</dt><dd>{{.Details.ISBN10}}</dd>
<dt>Publisher</dt><dd>{{.Details.Publisher}}</dd>
<dt>Pages</dt><dd>{{.Details.Pages}}</dd>
<dt>Type</dt><dd>{{.Details.Type}}</dd>
<dt>Language</dt><dd>{{.Details.Language}}</dd>
</dl>
{{end}}{{if .ReviewsError}}<h4>Error fetching product reviews!</h4>
<p>{{.ReviewsError}}</p>
{{else}}<h4>Book Reviews</h4>
{{range .Reviews.Reviews}}<blockquote><p>{{.Text}}</p><small>{{.Reviewer}}</small>
{{with .Rating}}{{if .Error}}<p><i>{{.Error}}</i></p>{{else}}<p><font color="{{.Color}}">{{.Stars}} stars</font></p>{{end}}
{{end}}</blockquote>
{{end}}{{end}}<p>Statuses: details {{.DetailsStatus}}, reviews {{.ReviewsStatus}}</p>
</body></html>
`
