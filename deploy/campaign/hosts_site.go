package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onebell/onebell/deploy/local"
	"github.com/onebell/onebell/dispatch/admin"
	"github.com/onebell/onebell/dispatch/wire"
	"github.com/onebell/onebell/intents"
)

// site is a round on several hosts: the same producers, providers and checks, but brokers and databases that can fail as hosts do, and
// dispatchers to which nothing else happens.
type site struct {
	round
	d       deployment
	primary *local.Postgres
	standby *local.Postgres // nil: none
	cluster []*broker       // nil: one broker
}

func newSite(d deployment, root, binary, dir string, seed uint64) *site {
	s := &site{d: d}
	s.round = round{
		seed: seed, record: &record{}, lease: intents.LeaseFor(attemptTimeout), telling: make(chan error, 1),
		dir: filepath.Join(dir, d.name), worker: &worker{root: root, binary: binary, dir: dir},
	}
	return s
}

// up starts databases, brokers, providers, producers' plans and places for dispatchers.
func (s *site) up(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if s.worker.db, err = startDatabase(ctx, s.worker.binary); err != nil {
		return err
	}
	s.primary = s.worker.db.server
	if err := s.worker.db.fresh(ctx, "hosts"); err != nil {
		return err
	}
	if s.d.standby != "" {
		if s.standby, err = s.primary.Standby(ctx); err != nil {
			return err
		}
	}
	if s.d.standby == synchronous {
		if err := s.synchronize(ctx); err != nil {
			return err
		}
	}
	if err := s.startBrokers(); err != nil {
		return err
	}
	if s.peers, err = newPeers(s.rnd("peers")); err != nil {
		return err
	}
	s.watcher = newWatcher(s.admins)
	s.producers = newProducers(s.brokerURL(""), s.peers, s.rnd("producers"), hostFacts)
	for n := range dispatchers {
		if err := s.addPlace(n); err != nil {
			return err
		}
	}
	return nil
}

// synchronize has the primary commit nothing that the standby does not have.
func (s *site) synchronize(ctx context.Context) error {
	for _, sql := range []string{"alter system set synchronous_standby_names = '" + local.StandbyName + "'", "select pg_reload_conf()"} {
		if err := s.worker.db.exec(ctx, sql); err != nil {
			return err
		}
	}
	conn, err := s.worker.db.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for {
		var n int
		if err := conn.QueryRow(ctx, "select count(*) from pg_stat_replication where sync_state = 'sync'").Scan(&n); err != nil || n == 1 {
			return err
		}
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// startBrokers starts one broker, or a cluster in the shipped configuration.
func (s *site) startBrokers() (err error) {
	if !s.d.cluster {
		s.broker, err = startBroker(s.worker.root, s.dir)
		return err
	}
	routes := make([]string, clusterSize)
	for i := range routes {
		port, err := local.FreePort(0)
		if err != nil {
			return err
		}
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", port)
	}
	config, err := brokerConfig(s.worker.root)
	if err != nil {
		return err
	}
	for i, route := range routes {
		dir := filepath.Join(s.dir, fmt.Sprintf("broker-%d", i))
		b := &broker{opts: local.NATSOptions{Dir: filepath.Join(dir, "streams"), Durable: true, ConfigFile: filepath.Join(dir, "nats.conf")}}
		b.config = strings.Replace(config, "server_name: onebell-1", fmt.Sprintf("server_name: onebell-%d", i), 1) +
			fmt.Sprintf("\ncluster { name: onebell, listen: %q, routes: [%s] }\n", strings.TrimPrefix(route, "nats://"), strings.Join(routes, ", "))
		if err := b.write(b.config); err != nil {
			return err
		}
		if b.opts.Port, err = local.FreePort(0); err != nil {
			return err
		}
		if err := b.start(); err != nil {
			return err
		}
		s.cluster = append(s.cluster, b)
	}
	s.broker = s.cluster[0]
	return nil
}

const clusterSize = 3

// brokerURL names every broker, each with the user.
func (s *site) brokerURL(user string) string {
	var urls []string
	for _, b := range s.brokerList() {
		urls = append(urls, "nats://"+user+b.addr())
	}
	return strings.Join(urls, ",")
}

func (s *site) brokerList() []*broker {
	if s.cluster == nil {
		return []*broker{s.broker}
	}
	return s.cluster
}

// databaseURL names the primary and, where there is one, the standby; clients take whichever takes writes.
func (s *site) databaseURL(primary string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(databaseRole, databasePassword), Host: primary, Path: s.worker.db.name, RawQuery: "sslmode=disable"}
	if s.standby != nil {
		u.Host += "," + s.standby.Addr()
		u.RawQuery += "&target_session_attrs=read-write"
	}
	return u.String()
}

// addPlace makes the place of a dispatcher. Where its network is to be cut it goes through links.
func (s *site) addPlace(n int) error {
	brokers, database := s.brokerURL(brokerUser+":"+brokerPassword+"@"), s.primary.Addr()
	if s.d.links {
		toBroker, err := newLink(s.broker.addr())
		if err != nil {
			return err
		}
		toDatabase, err := newLink(database)
		if err != nil {
			return err
		}
		s.brokers, s.databases = append(s.brokers, toBroker), append(s.databases, toDatabase)
		brokers, database = "nats://"+brokerUser+":"+brokerPassword+"@"+toBroker.addr(), toDatabase.addr()
	}
	s.slots = append(s.slots, &slot{
		binary: s.worker.binary, ledger: filepath.Join(s.dir, "points"), lease: s.lease, record: s.record, rnd: s.rnd(fmt.Sprint("slot ", n)),
		env: append(s.peers.env(), "ONEBELL_NATS_URL="+brokers, "ONEBELL_DATABASE_URL="+s.databaseURL(database), "ONEBELL_SECRET="+campaignSecret,
			"ONEBELL_ADMIN_ADDR=127.0.0.1:0", "ONEBELL_LOG_LEVEL=info", "ONEBELL_LOG_FORMAT=json"),
	})
	return nil
}

// serve starts a dispatcher in every place and waits until all serve.
func (s *site) serve(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	for _, place := range s.slots {
		for {
			d, err := place.start(life{})
			if err != nil {
				return err
			}
			if _, err = d.serves(ctx); err == nil {
				break
			}
			if !pause(ctx, time.Second) { // as a supervisor does: a cluster that is just forming has no leader
				return err
			}
		}
	}
	return nil
}

// api is the admin API of the dispatcher that was started last.
func (s *site) api() (*admin.Client, error) {
	addrs := s.admins()
	if len(addrs) == 0 {
		return nil, errors.New("no dispatcher serves")
	}
	return admin.NewClient("http://"+addrs[len(addrs)-1], "", nil)
}

// leader is the broker that leads the stream of requests.
func (s *site) leader(ctx context.Context) (*broker, error) {
	nc, err := nats.Connect(s.brokerURL(""))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, wire.RequestStream)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	if info.Config.Replicas != clusterSize || info.Cluster == nil {
		return nil, fmt.Errorf("the stream of requests has %d replicas", info.Config.Replicas)
	}
	for i, b := range s.cluster {
		if info.Cluster.Leader == fmt.Sprintf("onebell-%d", i) {
			return b, nil
		}
	}
	return nil, fmt.Errorf("the leader %q is none of ours", info.Cluster.Leader)
}

// down ends everything.
func (s *site) down() {
	s.round.down()
	for _, b := range s.cluster {
		b.kill()
	}
	for _, p := range []*local.Postgres{s.standby, s.primary} {
		if p != nil {
			_ = p.Close() // a throwaway server
		}
	}
}
