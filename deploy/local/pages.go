package local

import "html/template"

// What strangers sent is shown as text, never as markup: html/template escapes it.

const style = `<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
article{border-top:1px solid #ccc;padding:.6rem 0}pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:.5rem}small{color:#555}</style>`

var inboxPage = template.Must(template.New("inbox").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>onebell inbox</title>` + style + `
<h1>Inbox</h1><p>{{len .}} mails, the newest first. <a href="/messages">JSON</a></p>
{{range .}}<article><h2>{{if .Subject}}{{.Subject}}{{else}}(no subject){{end}}</h2>
<small>{{.At.Format "2006-01-02 15:04:05 MST"}} · from {{.From}} · to {{range .To}}{{.}} {{end}}· {{.MessageID}} · <a href="/messages/{{.ID}}/raw">as it came</a></small>
{{with .Text}}<pre>{{.}}</pre>{{end}}{{with .HTML}}<details><summary>HTML source</summary><pre>{{.}}</pre></details>{{end}}
{{range .Attachments}}<p>Attached: {{.}}</p>{{end}}{{with .Problem}}<p>Could not be read whole: {{.}}</p>{{end}}</article>
{{else}}<p>Nothing yet.</p>{{end}}</html>
`))

var receiverPage = template.Must(template.New("receiver").Parse(`<!doctype html><html lang="en"><meta charset="utf-8"><title>onebell receiver</title>` + style + `
<h1>Receiver</h1><p>{{len .}} calls, the newest first. <a href="/calls">JSON</a></p>
{{range .}}<article><h2>{{.Path}}</h2>
<small>{{.At.Format "2006-01-02 15:04:05 MST"}} · {{with .Key}}key {{.}}{{else}}no key{{end}} · answered {{.Status}} · {{if .Applied}}applied{{else}}not applied{{end}}</small>
<pre>{{.Body}}</pre></article>
{{else}}<p>Nothing yet.</p>{{end}}</html>
`))
