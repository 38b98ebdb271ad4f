// A PodSet controller that follows the best practices of controller-runtime.
//
// It indexes Pods by owner, creates and deletes the whole difference with a slow start, and uses 16 workers.
// It drops managed fields from the cache, and writes the status only when it changes.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	ownerIndex = "owner"
	workers    = 16
)

type reconciler struct {
	client.Client
}

func main() {
	qps := flag.Float64("kube-api-qps", 5000, "maximum requests per second")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(float32(*qps)); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func run(qps float32) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addToScheme(scheme)
	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = qps, int(2*qps)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	ofOwner := func(object client.Object) []string {
		owner := metav1.GetControllerOf(object)
		if owner == nil || owner.Kind != "PodSet" {
			return nil
		}
		return []string{string(owner.UID)}
	}
	if err := manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, ownerIndex, ofOwner); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&PodSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var set PodSet
	if err := r.Get(ctx, request.NamespacedName, &set); err != nil || set.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var owned corev1.PodList
	index := client.MatchingFields{ownerIndex: string(set.UID)}
	if err := r.List(ctx, &owned, client.InNamespace(set.Namespace), index, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, err
	}
	var active []*corev1.Pod
	for i := range owned.Items {
		if pod := &owned.Items[i]; isActive(pod) {
			active = append(active, pod)
		}
	}
	scaleErr := r.scale(ctx, &set, owned.Items, active)
	next := status(&set, active)
	if !equality.Semantic.DeepEqual(next, set.Status) {
		set.Status = next
		if err := r.Status().Update(ctx, &set); err != nil && !apierrors.IsConflict(err) {
			return ctrl.Result{}, errors.Join(scaleErr, err)
		} else if err != nil {
			return ctrl.Result{Requeue: true}, scaleErr
		}
	}
	return ctrl.Result{}, scaleErr
}

// scale creates missing Pods, or deletes surplus Pods.
func (r *reconciler) scale(ctx context.Context, set *PodSet, all []corev1.Pod, active []*corev1.Pod) error {
	difference := int(set.Spec.Replicas) - len(active)
	if difference >= 0 {
		return slowStart(missingNames(set, all, difference), func(name string) error {
			err := r.Create(ctx, build(set, name))
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	surplus := slices.Clone(active)
	slices.SortFunc(surplus, byDeletionRank)
	return inParallel(surplus[:-difference], func(pod *corev1.Pod) error {
		uid := client.Preconditions{UID: ptr.To(pod.UID)}
		return client.IgnoreNotFound(r.Delete(ctx, pod, uid))
	})
}

// slowStart runs do in batches of doubling size, and stops after the first batch with an error.
func slowStart[T any](items []T, do func(T) error) error {
	for batch := 1; len(items) > 0; batch *= 2 {
		size := min(batch, len(items))
		if err := inParallel(items[:size], do); err != nil {
			return err
		}
		items = items[size:]
	}
	return nil
}

// inParallel runs do for all items concurrently, and returns all errors.
func inParallel[T any](items []T, do func(T) error) error {
	var group sync.WaitGroup
	errs := make([]error, len(items))
	for i, item := range items {
		group.Go(func() { errs[i] = do(item) })
	}
	group.Wait()
	return errors.Join(errs...)
}
