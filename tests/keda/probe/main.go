// Probe puts KEDA's own Kafka and external scalers behind lines of JSON, for a test to drive.
//
//	{"op": "open", "id": "a", "kind": "kafka", "index": 0, "metadata": {...}}    kind: kafka, external or external-push
//	{"op": "poll", "id": "a"}                                                    as KEDA's operator does each interval
//	{"op": "close", "id": "a"}
//
// Each line is answered by one, in order. A scaler that pushes also says {"id": "a", "push": true} by itself.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"

	"promptkiln/tests/keda/probe/scalers"
)

const timeout = 5 * time.Second

type wish struct {
	Op       string            `json:"op"`
	ID       string            `json:"id"`
	Kind     string            `json:"kind"`
	Index    int               `json:"index"`
	Metadata map[string]string `json:"metadata"`
}

type reply struct {
	ID     string  `json:"id"`
	Name   string  `json:"name,omitempty"`
	Target float64 `json:"target,omitempty"`
	Value  float64 `json:"value"`
	Active bool    `json:"active"`
	Push   *bool   `json:"push,omitempty"`
	Error  string  `json:"error,omitempty"`
}

type probe struct {
	context context.Context
	open    map[string]scalers.Scaler
	lock    sync.Mutex // of the output: pushes come from goroutines of their own
	out     *json.Encoder
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := &probe{context: ctx, open: map[string]scalers.Scaler{}, out: json.NewEncoder(os.Stdout)}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var w wish
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			log.Fatal(err)
		}
		answer, err := p.do(w)
		answer.ID = w.ID
		if err != nil {
			answer.Error = err.Error()
		}
		p.say(answer)
	}
}

func (p *probe) say(r reply) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if err := p.out.Encode(r); err != nil {
		log.Fatal(err)
	}
}

func (p *probe) do(w wish) (reply, error) {
	if w.Op == "open" {
		return reply{}, p.add(w)
	}
	scaler, known := p.open[w.ID]
	if !known {
		return reply{}, fmt.Errorf("%q is not open", w.ID)
	}
	switch w.Op {
	case "poll":
		return p.poll(scaler)
	case "close":
		delete(p.open, w.ID)
		return reply{}, scaler.Close(p.context)
	}
	return reply{}, fmt.Errorf("there is no op %q", w.Op)
}

func (p *probe) add(w wish) error {
	config := &scalersconfig.ScalerConfig{
		ScalableObjectName:      w.ID,
		ScalableObjectNamespace: "probe",
		ScalableObjectType:      "ScaledObject",
		TriggerType:             w.Kind,
		TriggerIndex:            w.Index,
		TriggerMetadata:         w.Metadata,
		ResolvedEnv:             map[string]string{},
		AuthParams:              map[string]string{},
		GlobalHTTPTimeout:       timeout,
	}
	scaler, err := p.made(w, config)
	if err == nil {
		p.open[w.ID] = scaler
	}
	return err
}

func (p *probe) made(w wish, config *scalersconfig.ScalerConfig) (scalers.Scaler, error) {
	switch w.Kind {
	case "kafka":
		return scalers.NewKafkaScaler(p.context, config)
	case "external":
		return scalers.NewExternalScaler(config)
	case "external-push":
		pushing, err := scalers.NewExternalPushScaler(config)
		if err == nil {
			p.follow(w.ID, pushing)
		}
		return pushing, err
	}
	return nil, fmt.Errorf("there is no kind %q", w.Kind)
}

func (p *probe) follow(id string, pushing scalers.PushScaler) {
	pushes := make(chan bool)
	go pushing.Run(p.context, pushes)
	go func() {
		for active := range pushes {
			p.say(reply{ID: id, Push: &active})
		}
	}()
}

// poll asks for the spec, then for its value and activity: every trigger of ours has one metric.
func (p *probe) poll(scaler scalers.Scaler) (reply, error) {
	specs := scaler.GetMetricSpecForScaling(p.context)
	if len(specs) != 1 {
		return reply{}, errors.New("it has no metric, or several")
	}
	source := specs[0].External
	values, active, err := scaler.GetMetricsAndActivity(p.context, source.Metric.Name)
	if err != nil {
		return reply{}, err
	}
	if len(values) != 1 {
		return reply{}, errors.New("its metric has no value, or several")
	}
	return reply{
		Name:   values[0].MetricName,
		Target: source.Target.AverageValue.AsApproximateFloat64(),
		Value:  values[0].Value.AsApproximateFloat64(),
		Active: active,
	}, nil
}
