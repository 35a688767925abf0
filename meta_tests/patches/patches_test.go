// Package patches checks patched Kubernetes code against a real etcd.
// It is compiled inside a patched checkout: see ../kubernetes_checkout.py.
package patches

import (
	"context"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
)

const podKey = "/pods/default/web"

func newTracing() (*tracetest.SpanRecorder, *sdktrace.TracerProvider) {
	recorder := tracetest.NewSpanRecorder()
	return recorder, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
}

func startEtcd(t *testing.T) *kubernetes.Client {
	run := reflect.ValueOf(testserver.RunEtcd)
	arguments := []reflect.Value{reflect.ValueOf(t)}
	if !run.Type().IsVariadic() {
		// Until Kubernetes 1.37: a configuration, nil for the usual one.
		arguments = append(arguments, reflect.Zero(run.Type().In(1)))
	}
	endpoints := run.Call(arguments)[0].Interface().(*kubernetes.Client).Endpoints()
	client, err := kubernetes.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func newStorage(t *testing.T, endpoints []string, tracing *sdktrace.TracerProvider) storage.Interface {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	require.NoError(t, example.AddToScheme(scheme))
	require.NoError(t, examplev1.AddToScheme(scheme))
	codec := apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)

	config := storagebackend.NewDefaultConfig("/registry", codec)
	config.Transport.ServerList = endpoints
	if tracing != nil {
		config.Transport.TracerProvider = tracing
	}
	newPod := func() runtime.Object { return &example.Pod{} }
	newPods := func() runtime.Object { return &example.PodList{} }
	create := reflect.ValueOf(factory.Create)
	arguments := []any{*config.ForResource(schema.GroupResource{Resource: "pods"}), newPod, newPods, "/pods"}
	values := make([]reflect.Value, len(arguments))
	for i, argument := range arguments {
		values[i] = reflect.ValueOf(argument)
	}
	if create.Type().NumIn() > len(values) {
		// Kubernetes 1.38: a ReverseKeyFunc, which only watches of the watch cache need.
		values = slices.Insert(values, 3, reflect.Zero(create.Type().In(3)))
	}
	made := create.Call(values)
	require.Nil(t, made[2].Interface())
	t.Cleanup(made[1].Interface().(factory.DestroyFunc))
	return made[0].Interface().(storage.Interface)
}

func createPod(t *testing.T, store storage.Interface, key string) *example.Pod {
	created := &example.Pod{}
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	require.NoError(t, store.Create(context.Background(), key, pod, created, 0))
	return created
}

func attributes(kvs []attribute.KeyValue) map[string]any {
	got := map[string]any{}
	for _, kv := range kvs {
		got[string(kv.Key)] = kv.Value.AsInterface()
	}
	return got
}

// calls holds each method of the Kubernetes interface with its expected event and tracker span.
var calls = []struct {
	method string
	call   func(context.Context, kubernetes.Interface) error
	event  map[string]any
	span   map[string]any
}{
	{
		method: "OptimisticPut",
		call: func(ctx context.Context, k kubernetes.Interface) error {
			_, err := k.OptimisticPut(ctx, "/registry/a", []byte("v"), 0, kubernetes.PutOptions{GetOnFailure: true})
			return err
		},
		event: map[string]any{"key": "/registry/a", "expected_rev": int64(0), "lease": int64(0), "get_on_failure": true},
		span:  map[string]any{"key": "/registry/a", "rev": int64(0), "lease": int64(0), "get_on_failure": true},
	},
	{
		method: "Get",
		call: func(ctx context.Context, k kubernetes.Interface) error {
			_, err := k.Get(ctx, "/registry/a", kubernetes.GetOptions{Revision: 2})
			return err
		},
		event: map[string]any{"key": "/registry/a", "rev": int64(2)},
		span:  map[string]any{"key": "/registry/a", "rev": int64(2)},
	},
	{
		method: "List",
		call: func(ctx context.Context, k kubernetes.Interface) error {
			_, err := k.List(ctx, "/registry/", kubernetes.ListOptions{Revision: 2, Limit: 500, Continue: "/registry/a\x00"})
			return err
		},
		event: map[string]any{"prefix": "/registry/", "rev": int64(2), "limit": int64(500), "continue": "/registry/a\x00"},
		span:  map[string]any{"key": "/registry/", "rev": int64(2), "limit": int64(500)},
	},
	{
		method: "Count",
		call: func(ctx context.Context, k kubernetes.Interface) error {
			_, err := k.Count(ctx, "/registry/", kubernetes.CountOptions{})
			return err
		},
		event: map[string]any{"prefix": "/registry/"},
		span:  map[string]any{"key": "/registry/"},
	},
	{
		method: "OptimisticDelete",
		call: func(ctx context.Context, k kubernetes.Interface) error {
			_, err := k.OptimisticDelete(ctx, "/registry/a", 2, kubernetes.DeleteOptions{GetOnFailure: true})
			return err
		},
		event: map[string]any{"key": "/registry/a", "expected_rev": int64(2), "get_on_failure": true},
		span:  map[string]any{"key": "/registry/a", "rev": int64(2), "get_on_failure": true},
	},
}

func TestEventIsAddedToTheCurrentSpan(t *testing.T) {
	client := startEtcd(t)
	recorder, tracing := newTracing()
	for i, c := range calls {
		ctx, span := tracing.Tracer("test").Start(context.Background(), "caller")
		require.NoError(t, c.call(ctx, client.Kubernetes), c.method)
		span.End()

		events := recorder.Ended()[i].Events()
		require.Len(t, events, 1, c.method)
		require.Equal(t, "contract."+c.method, events[0].Name)
		require.Equal(t, c.event, attributes(events[0].Attributes), c.method)
	}
}

func TestCallsWithoutSpanAreFine(t *testing.T) {
	client := startEtcd(t)
	for _, c := range calls {
		require.NoError(t, c.call(context.Background(), client.Kubernetes), c.method)
	}
}

func TestTrackerStartsASpanForEachCall(t *testing.T) {
	client := startEtcd(t)
	recorder, tracing := newTracing()
	tracker := etcd3.NewContractTracker(client.Kubernetes, tracing)
	for i, c := range calls {
		require.NoError(t, c.call(context.Background(), tracker), c.method)

		require.Len(t, recorder.Ended(), i+1)
		span := recorder.Ended()[i]
		require.Equal(t, c.method+" kubernetesEtcdContract", span.Name())
		require.Equal(t, "k8s.io/apiserver/pkg/storage/etcd3", span.InstrumentationScope().Name)
		require.Equal(t, c.span, attributes(span.Attributes()), c.method)
		require.Len(t, span.Events(), 1, c.method)
		require.Equal(t, "contract."+c.method, span.Events()[0].Name)
	}
}

func TestStorageRequestsAreChildrenOfContractSpans(t *testing.T) {
	recorder, tracing := newTracing()
	store := newStorage(t, startEtcd(t).Endpoints(), tracing)
	createPod(t, store, podKey)

	var put sdktrace.ReadOnlySpan
	for _, span := range recorder.Ended() {
		if span.Name() == "OptimisticPut kubernetesEtcdContract" {
			require.Nil(t, put, "one call, one span")
			put = span
		}
	}
	require.NotNil(t, put)
	require.Equal(t, "/registry"+podKey, attributes(put.Attributes())["key"])
	var requests []string
	for _, span := range recorder.Ended() {
		if span.Parent().SpanID() == put.SpanContext().SpanID() {
			requests = append(requests, span.Name())
		}
	}
	require.Equal(t, []string{"etcdserverpb.KV/Txn"}, requests)
}

func TestStorageWorksWithoutTracing(t *testing.T) {
	store := newStorage(t, startEtcd(t).Endpoints(), nil)
	createPod(t, store, podKey)
	require.NoError(t, store.Get(context.Background(), podKey, storage.GetOptions{}, &example.Pod{}))
}

func TestWatchEndsAfterOneMinute(t *testing.T) {
	recorder, tracing := newTracing()
	store := newStorage(t, startEtcd(t).Endpoints(), tracing)
	created := createPod(t, store, podKey)

	// Bounds the test where the limit does not work; never reached where it does.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	started := time.Now()
	watcher, err := store.Watch(ctx, "/pods/", storage.ListOptions{
		ResourceVersion: created.ResourceVersion, Predicate: storage.Everything, Recursive: true,
	})
	require.NoError(t, err)
	defer watcher.Stop()
	createPod(t, store, podKey+"-2")

	var types []watch.EventType
	for event := range watcher.ResultChan() {
		types = append(types, event.Type)
	}
	require.NoError(t, ctx.Err())
	require.Equal(t, []watch.EventType{watch.Added}, types, "events, and no error at the end")
	require.GreaterOrEqual(t, time.Since(started), time.Minute)
	require.Eventually(t, func() bool {
		for _, span := range recorder.Ended() {
			if span.Name() == "etcdserverpb.Watch/Watch" {
				return true
			}
		}
		return false
	}, time.Minute, 10*time.Millisecond, "the watch's span ends too")
}

func TestTracingConfigurationOfCmdTests(t *testing.T) {
	data, err := os.ReadFile("../../../../../../hack/testdata/apiserver-tracing.yaml")
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	config := &apiserver.TracingConfiguration{}
	require.NoError(t, runtime.DecodeInto(codecs.UniversalDecoder(), data, config))
	require.Equal(t, "localhost:4317", *config.Endpoint)
	require.Equal(t, int32(1000000), *config.SamplingRatePerMillion)
}
