package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// isActive reports whether a Pod counts as a replica.
func isActive(pod *corev1.Pod) bool {
	phase := pod.Status.Phase
	return pod.DeletionTimestamp == nil && (phase == corev1.PodPending || phase == corev1.PodRunning || phase == "")
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// missingNames returns count names that no Pod of the set has.
func missingNames(set *PodSet, pods []corev1.Pod, count int) []string {
	used := make(map[string]bool, len(pods))
	for i := range pods {
		used[pods[i].Name] = true
	}
	names := make([]string, 0, count)
	for number := 1; len(names) < count; number++ {
		if name := fmt.Sprintf("%s-pod-%d", set.Name, number); !used[name] {
			names = append(names, name)
		}
	}
	return names
}

// byDeletionRank compares Pods by the order in which they are deleted.
func byDeletionRank(left, right *corev1.Pod) int {
	before := func(yes, no bool) int { return cmp.Compare(btoi(no), btoi(yes)) }
	cost := func(pod *corev1.Pod) int { cost, _ := strconv.Atoi(pod.Annotations[deletionCost]); return cost }
	return cmp.Or(
		before(left.Spec.NodeName == "", right.Spec.NodeName == ""),
		before(left.Status.Phase == corev1.PodPending, right.Status.Phase == corev1.PodPending),
		before(!isReady(left), !isReady(right)),
		cmp.Compare(cost(left), cost(right)),
		right.CreationTimestamp.Compare(left.CreationTimestamp.Time),
	)
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func labels(set *PodSet) map[string]string {
	return map[string]string{"app": set.Name, "version": "v0.1"}
}

// build returns a Pod of the set.
func build(set *PodSet, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		Namespace:       set.Namespace,
		Labels:          labels(set),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, groupVersion.WithKind("PodSet"))},
	}}
	if template := set.Spec.Template; template != nil {
		template.Spec.DeepCopyInto(&pod.Spec)
		for key, value := range template.Labels {
			pod.Labels[key] = value
		}
	}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	return pod
}

// status returns the status of a set with these Pods.
func status(set *PodSet, pods []*corev1.Pod) PodSetStatus {
	var next PodSetStatus
	set.Status.DeepCopyInto(&next)
	next.PodNames = make([]string, 0, len(pods))
	next.ReadyReplicas = 0
	for _, pod := range pods {
		next.PodNames = append(next.PodNames, pod.Name)
		if isReady(pod) {
			next.ReadyReplicas++
		}
	}
	slices.Sort(next.PodNames)
	next.Replicas = int32(len(pods))
	next.AvailableReplicas = next.Replicas
	next.Selector = "app=" + set.Name + ",version=v0.1"
	next.ObservedGeneration = set.Generation
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "PodsNotReady", ObservedGeneration: set.Generation}
	ready.Message = fmt.Sprintf("%d of %d Pods are ready, %d exist", next.ReadyReplicas, set.Spec.Replicas, next.Replicas)
	if next.ReadyReplicas == set.Spec.Replicas && next.Replicas == set.Spec.Replicas {
		ready.Status, ready.Reason = metav1.ConditionTrue, "AsSpecified"
	}
	meta.SetStatusCondition(&next.Conditions, ready)
	return next
}
