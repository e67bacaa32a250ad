package kube

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/windtunnel/windtunnel/internal/model"
)

// status is a pod of the site's, ready or not.
func status(s *site, p *pod, is corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.object, Namespace: "n", Labels: map[string]string{labelRun: s.target.id, labelTrial: s.trial}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: is}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: container(p.role), Ready: is == corev1.ConditionTrue, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
}

// A pod that is not ready leaves our EndpointSlices, and is put back when it is;
// what others wrote is left alone.
func TestSlicesFollowPods(t *testing.T) {
	t.Parallel()
	top := topology([]model.Node{node("n0", "client"), node("n1", "s1", "s2")})
	top.Services = []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"s1", "s2"}}}
	c := &cluster{context: "a", namespace: "n"}
	s := made(top, c, false, map[string]string{"client": "x", "s1": "y", "s2": "y"})
	slice := s.slice(exposed{service: top.Services[0], cluster: c, object: "server-7"}, []*pod{s.pods["s1"], s.pods["s2"]})
	theirs := slice.DeepCopy()
	theirs.Name, theirs.Labels[discoveryv1.LabelManagedBy] = "theirs", "somebody"
	client := fake.NewClientset(slice, theirs,
		status(s, s.pods["client"], corev1.ConditionTrue), status(s, s.pods["s1"], corev1.ConditionFalse), status(s, s.pods["s2"], corev1.ConditionTrue))
	c.client = client
	expect := func(name string, want ...bool) {
		t.Helper()
		if err := s.update(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := client.DiscoveryV1().EndpointSlices("n").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range o.Endpoints {
			if *e.Conditions.Ready != want[i] {
				t.Errorf("%s, endpoint %v: ready %v", name, e.Addresses, *e.Conditions.Ready)
			}
		}
	}
	expect(slice.Name, false, true)
	expect("theirs", true, true)
	if _, err := client.CoreV1().Pods("n").Update(t.Context(), status(s, s.pods["s1"], corev1.ConditionTrue), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(slice.Name, true, true)
}

// Servers are probed where they will be killed, and then are not waited for
// before they have been started.
func TestServersAreProbedForFaults(t *testing.T) {
	t.Parallel()
	top := topology([]model.Node{node("n0", "client"), node("n1", "s1")})
	top.Services = []model.Service{{Name: "server", Port: 80, TargetPort: 8080, Pods: []string{"s1"}}}
	s := made(top, &cluster{}, false, nil)
	dead := status(s, s.pods["s1"], corev1.ConditionFalse)
	if probe := s.readiness(model.PodSpec{Name: "s1"}); probe != nil || s.up(dead) {
		t.Errorf("without faults: %+v", probe)
	}
	s.target.Faults = true
	if probe := s.readiness(model.PodSpec{Name: "s1"}); probe == nil || probe.TCPSocket.Port.IntValue() != 8080 || probe.PeriodSeconds != 1 || probe.FailureThreshold != 1 {
		t.Errorf("with faults: %+v", probe)
	}
	if s.readiness(model.PodSpec{Name: "client"}) != nil {
		t.Error("a client is probed")
	}
	waiting := dead.DeepCopy()
	waiting.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	if !s.up(dead) || s.up(waiting) || s.up(status(s, s.pods["client"], corev1.ConditionFalse)) {
		t.Error("a server that runs is up, a container that does not run and a client that is not ready are not")
	}
}

func TestWhatCannotBeKilled(t *testing.T) {
	t.Parallel()
	s := made(topology([]model.Node{node("n0", "client", "s1")}), &cluster{}, false, nil)
	if _, err := s.pods["s1"].Kill(t.Context(), true); !errors.Is(err, model.ErrUnsupported) {
		t.Errorf("power: %v", err)
	}
	for _, name := range []string{"client", "s1"} {
		if _, err := s.pods[name].Kill(t.Context(), false); err == nil {
			t.Errorf("%s was killed", name)
		}
		if _, err := s.pods[name].Suspend(t.Context()); err == nil {
			t.Errorf("%s was stopped", name)
		}
	}
}
