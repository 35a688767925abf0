// Command tracing_configuration reads a file as kube-apiserver reads that of --tracing-config-file, and prints what it says.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	tracing "k8s.io/component-base/tracing/api/v1"
)

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	file, err := os.ReadFile(os.Args[1])
	if err == nil {
		var config apiserver.TracingConfiguration
		if err = runtime.DecodeInto(strict, file, &config); err == nil {
			err = tracing.ValidateTracingConfiguration(&config.TracingConfiguration, nil, nil).ToAggregate()
		}
		if err == nil {
			fmt.Println(*config.Endpoint, *config.SamplingRatePerMillion)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
