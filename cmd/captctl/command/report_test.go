// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/test/builder/fleets"
)

// document is the page of captctl report.
type document struct{ *html.Node }

func report(t *testing.T, env *environment, arguments ...string) document {
	t.Helper()
	out, _, err := env.run(t, append([]string{"report"}, arguments...)...)
	require.NoError(t, err)
	root, err := html.Parse(strings.NewReader(out))
	require.NoError(t, err)
	return document{root}
}

// all are the elements of a name.
func (d document) all(name string) (found []document) {
	for node := range d.Descendants() {
		if node.Type == html.ElementNode && node.Data == name {
			found = append(found, document{node})
		}
	}
	return found
}

// text is what a user sees, in one line.
func (d document) text() string {
	var texts []string
	for node := range d.Descendants() {
		if node.Type == html.TextNode && node.Parent.Data != "script" && node.Parent.Data != "style" {
			texts = append(texts, node.Data)
		}
	}
	return strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
}

func (d document) attribute(name string) string {
	i := slices.IndexFunc(d.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return ""
	}
	return d.Attr[i].Val
}

// skeleton is everything of a page that can be code: its elements, the names of their attributes, scripts and styles. Boxes with long names also
// have a title.
func (d document) skeleton() (lines []string) {
	for node := range d.Descendants() {
		if node.Type != html.ElementNode || node.Namespace == "svg" && node.Data == "title" && len(node.Attr) == 0 {
			continue
		}
		line := node.Namespace + ":" + node.Data
		for _, attribute := range node.Attr {
			line += " " + attribute.Key
		}
		if node.Data == "script" || node.Data == "style" {
			line += fmt.Sprintf(" %x", sha256.Sum256([]byte(node.FirstChild.Data)))
		}
		lines = append(lines, line)
	}
	return lines
}

func TestReportShowsClustersOfEveryState(t *testing.T) {
	page := report(t, &environment{objects: fleets.Objects(fleets.New(6, fleetNow))})
	assert.Equal(t, "1 Failed 1 Degraded 1 Provisioning 1 Deleting 2 Ready", page.all("ul")[0].text())
	rows := page.all("tbody")[0].all("tr")
	sections := page.all("details")
	require.Len(t, rows, 6)
	require.Len(t, sections, 6)
	for i, want := range []struct{ row, section string }{
		{`team-a/checkout-3 Failed v1.35.0 ap-northeast-1 12d 42m ApplyFailed: Terraform failed: Error: creating EKS Cluster (checkout) with`,
			`An edit starts Terraform immediately; without one, provider-terraform retries. captctl logs team-a/checkout-3 kubectl edit workspacetemplate -n team-a eks kubectl edit captcontrolplane -n team-a checkout-3`},
		{"team-a/orders-2 Degraded v1.35.0 ap-northeast-1 Unhealthy 12d 42m TemplateNotFound: WorkspaceTemplate fargate does not exist", "APIServer Unhealthy 20m the API server has not answered"},
		{"team-a/search-1 Provisioning v1.35.0 ap-northeast-1 12d 42m Provisioning: waiting for Terraform to apply a change", "42% of Creation, about 8m left"},
		{"team-a/old-4 Deleting v1.35.0 ap-northeast-1 Healthy 12d 42m WaitingForDestroy: waiting for Terraform to destroy", "Fargate profiles Profile State Since Message default Deleting 40m"},
		{"team-a/payments-production-0 Ready v1.35.0 ap-northeast-1 Healthy 12d 42m", "API server: https://0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com:443"},
		{"team-a/payments-production-5 Ready v1.35.0 ap-northeast-1 Healthy 12d 42m", "default Ready 40m"},
	} {
		assert.Contains(t, rows[i].text(), want.row)
		assert.Contains(t, sections[i].text(), want.section)
		open := slices.ContainsFunc(sections[i].Attr, func(a html.Attribute) bool { return a.Key == "open" })
		assert.Equal(t, i < 4, open, "a section is open if there is something to do")
		link := strings.ReplaceAll(rows[i].all("a")[0].attribute("href"), "%2f", "/")
		assert.Equal(t, "#"+sections[i].all("div")[0].attribute("id"), link)
	}
	assert.Contains(t, sections[0].text(), "AccessDeniedException: User is not authorized", "the cause is complete")
	assert.Contains(t, sections[1].text(), "CAPTControlPlane orders-2 Degraded True APIServerNotAnswering 7m")
	graph := sections[1].all("svg")[0].text()
	assert.Contains(t, graph, "CAPTControlPlane orders-2 ✗ APIServerNotAnswering")
	assert.Contains(t, graph, "WorkspaceTemplate eks ✓ ready", "the state of templates and Secrets is the reported one")
	assert.Contains(t, graph, "Secret orders-2-kubeconfig ✓ ready")
	assert.Contains(t, graph, "Workspace orders-2-vpc ✓ ready")
	for _, section := range sections {
		for _, svg := range section.all("svg") {
			for _, box := range svg.all("g") {
				classes := map[bool][]string{true: {"bad", "held", "waiting"}, false: {"good", "busy", "waiting", ""}}[strings.Contains(box.text(), "✗")]
				assert.Contains(t, classes, box.attribute("class"), box.text())
			}
		}
	}
}

func TestReportOfOneNamespace(t *testing.T) {
	env := &environment{objects: fleets.Objects(fleets.New(1, fleetNow))}
	page := report(t, env, "-n", "team-b", "-o", "html")
	assert.Contains(t, page.text(), "CAPT clusters: namespace team-b From context production (http://127.0.0.1:1) on 2026-10-22 10:00:00 UTC")
	assert.Contains(t, page.text(), "There are no Clusters of CAPT.")
	assert.Empty(t, page.all("table"))
	assert.Len(t, report(t, env, "-n", "team-a").all("details"), 1)
	_, _, err := env.run(t, "report", "-o", "table")
	assert.EqualError(t, err, `there is no output format "table"; use one of html`)
}

// A Cluster whose control plane does not exist has no graph, but a table of the objects that exist.
func TestReportOfAClusterWithoutControlPlane(t *testing.T) {
	c := fleets.Ready("demo", fleetNow)
	page := report(t, &environment{objects: []client.Object{c.Objects.Cluster, c.CAPTCluster, c.VPC}})
	assert.Empty(t, page.all("svg"))
	assert.Contains(t, page.all("details")[0].text(), "CAPTControlPlane demo: NotFound")
	assert.Contains(t, page.all("details")[0].text(), "Objects Object Ready Age Reason WorkspaceTemplateApply demo-vpc True 12d Ready")
}

// Six lists are all that is read, however many Clusters there are. So no value of a Secret can be in the page.
func TestReportReadsNoSecrets(t *testing.T) {
	env := &environment{objects: fleets.Objects(fleets.New(5, fleetNow))}
	var read []string
	env.funcs = interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			return fmt.Errorf("reads %T %s", object, key)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			read = append(read, fmt.Sprintf("%T", list))
			return c.List(ctx, list, options...)
		},
	}
	report(t, env)
	assert.Equal(t, []string{
		"*v1beta2.ClusterList", "*v1beta2.CAPTClusterList", "*v1beta2.CAPTControlPlaneList", "*v1beta2.WorkspaceTemplateApplyList", "*v1beta2.MachinePoolList", "*v1beta2.CAPTMachinePoolList",
	}, read)
}

// hostile replaces every text that a Cluster reports.
func hostile(c *fleets.Cluster, text string) {
	status := &c.ControlPlane.Status
	status.Version, status.Endpoint, c.ControlPlane.Spec.Version = text, text, text+"2"
	for _, conditions := range [][]metav1.Condition{status.Conditions, c.VPC.Status.Conditions, c.EKS.Status.Conditions, c.Fargate.Status.Conditions, c.CAPTCluster.Status.Conditions} {
		for i := range conditions {
			conditions[i].Reason, conditions[i].Message = text, text
		}
	}
	for i := range status.Health.Checks {
		status.Health.Checks[i].Name, status.Health.Checks[i].Message = text, text
	}
	profile := &status.FargateProfiles[0]
	profile.Name, profile.FailureReason, profile.FailureMessage = text, text, text
	c.EKS.Spec.WorkspaceName, c.ControlPlane.Spec.WorkspaceTemplateRef = text, c.EKS.Spec.TemplateRef
	c.EKS.Spec.TemplateRef.Name, c.EKS.Spec.TemplateRef.Namespace, c.ControlPlane.Spec.WorkspaceTemplateRef.Name = text, text, text
	c.Objects.Cluster.Name = text
	status.Dependencies = c.Dependencies()
	for i := range status.Dependencies {
		status.Dependencies[i].Reason = text
	}
}

func TestNothingThatAClusterReportsBecomesCode(t *testing.T) {
	page := func(text string) document {
		c := fleets.New(3, fleetNow)[2]
		hostile(c, text)
		return report(t, &environment{objects: fleets.Objects([]*fleets.Cluster{c})})
	}
	harmless := page("harmless")
	policy := ""
	for _, meta := range harmless.all("meta") {
		if meta.attribute("http-equiv") == "Content-Security-Policy" {
			policy = meta.attribute("content")
		}
	}
	assert.Contains(t, policy, "default-src 'none'")
	for _, name := range []string{"script", "style"} {
		elements := harmless.all(name)
		require.Len(t, elements, 1)
		sum := sha256.Sum256([]byte(elements[0].FirstChild.Data))
		assert.Contains(t, policy, name+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
		assert.NotRegexp(t, `url\(|@import|https?:|fetch|innerHTML`, elements[0].FirstChild.Data, "nothing is loaded, and text stays text")
	}
	for _, name := range []string{"link", "img", "iframe", "object", "embed", "base", "form", "use", "image"} {
		assert.Empty(t, harmless.all(name))
	}
	for _, text := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title></svg></style></script><script>alert(1)//`,
		`javascript:alert(1)`, `{{.Version}}`, `]]><!--`, "\x1b[31m\x00\u202e",
	} {
		attacked := page(text)
		assert.Equal(t, harmless.skeleton(), attacked.skeleton(), text)
		for _, link := range attacked.all("a") {
			assert.Regexp(t, "^#", link.attribute("href"))
		}
		assert.NotRegexp(t, "[\x00-\x08\x0b-\x1f\u202a-\u202e]", attacked.text())
	}
	assert.Contains(t, page(`<b>`).text(), "<b>", "it is shown as it is")
}

// BenchmarkReport makes the page of 1,000 Clusters, equally many in each of five states, from objects in memory, and reports its size.
func BenchmarkReport(b *testing.B) {
	env := &environment{objects: fleets.Objects(fleets.New(1000, fleetNow))}
	for b.Loop() {
		out, _, err := env.runIn(b.Context(), b, "report")
		require.NoError(b, err)
		b.ReportMetric(float64(len(out))/1e6, "MB")
	}
}
