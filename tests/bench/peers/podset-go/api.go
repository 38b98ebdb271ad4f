package main

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "app.example.com", Version: "v1alpha1"}

// PodSet runs a number of Pods.
type PodSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PodSetSpec   `json:"spec"`
	Status PodSetStatus `json:"status,omitempty"`
}

// PodSetSpec is the desired state of a PodSet.
type PodSetSpec struct {
	Replicas int32                   `json:"replicas"`
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// PodSetStatus is the observed state of a PodSet.
type PodSetStatus struct {
	PodNames           []string           `json:"podNames"`
	AvailableReplicas  int32              `json:"availableReplicas"`
	Replicas           int32              `json:"replicas"`
	ReadyReplicas      int32              `json:"readyReplicas"`
	Selector           string             `json:"selector,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions"`
}

// PodSetList is a list of PodSets.
type PodSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodSet `json:"items"`
}

// DeepCopyInto copies the status.
func (in *PodSetStatus) DeepCopyInto(out *PodSetStatus) {
	*out = *in
	out.PodNames = append([]string(nil), in.PodNames...)
	out.Conditions = nil
	for i := range in.Conditions {
		out.Conditions = append(out.Conditions, *in.Conditions[i].DeepCopy())
	}
}

// DeepCopyInto copies the object.
func (in *PodSet) DeepCopyInto(out *PodSet) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Template = in.Spec.Template.DeepCopy()
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject copies the object.
func (in *PodSet) DeepCopyObject() runtime.Object {
	out := new(PodSet)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the list.
func (in *PodSetList) DeepCopyObject() runtime.Object {
	out := &PodSetList{TypeMeta: in.TypeMeta, Items: make([]PodSet, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &PodSet{}, &PodSetList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}
