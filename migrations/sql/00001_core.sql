-- +goose Up

-- Every migration begins so: while it waits for a lock, everybody else waits behind it.
set local lock_timeout = '10s';
set local statement_timeout = '10min';

-- Every table and index here is laid out for one thing: admitting and settling an intent on its first attempt costs one
-- insert and one HOT update. So no column that settling changes stands in an index of "intents"; what is open and not on
-- that path is enlisted in "agenda", which stays small.

-- Keys live behind the watermark: a key at or below it is refused, a key above it is remembered (purges move it first,
-- then delete). One row.
create table watermark (
    id         int primary key check (id = 1),
    acked_to   timestamptz not null
);
insert into watermark values (1, '-infinity');

-- One row per fact (caller, channel, key), holding its newest revision. The unique fact is the dedup.
create table keys (
    fact                bytea primary key,          -- 16 bytes, dedup.Identity.Fact
    revision            int not null,
    intent_id           uuid not null,
    fingerprint_version smallint not null,
    fingerprint         bytea not null,
    occurred_at         timestamptz not null
);

-- Revisions that a newer one replaced.
create table keys_older (
    fact                bytea not null,
    revision            int not null,
    intent_id           uuid not null,
    fingerprint_version smallint not null,
    fingerprint         bytea not null,
    occurred_at         timestamptz not null,
    primary key (fact, revision)
);

create table intents (
    id                  uuid primary key,           -- time-ordered: the database's clock, then the admission's token
    fact                bytea not null,
    caller              text not null,
    channel             text not null,
    key                 text not null,
    revision            int not null,
    guarantee           text not null,
    occurred_at         timestamptz not null,
    created_at          timestamptz not null,
    not_before          timestamptz,
    expires_at          timestamptz,
    priority            smallint not null,
    effect_key          text not null,
    collapse_key        text not null,
    recipient_hash      bytea not null,
    labels              jsonb,
    traceparent         text not null,
    -- from here on settling may change the value
    state               text not null,
    generation          int not null,
    updated_at          timestamptz not null,
    owner               text not null,
    lease_until         timestamptz,
    claimed_at          timestamptz,
    first_used_at       timestamptz,
    key_scope           text not null,
    doubt               boolean not null default false,
    accepted            boolean not null default false, -- evidence says so, which came while a sender was at it
    attempts            int not null default 0,
    takeovers           int not null default 0,
    possible_duplicates int not null default 0,
    provider_id         text not null default '',
    code                text not null default '',
    message             text not null default '',
    dead_recipient      boolean not null default false,
    superseded_by       uuid
) with (fillfactor = 45); -- a settled row is a little longer than an admitted one, and both must find room in the page

-- Personal data, apart from the audit row, so that it can be forgotten sooner.
create table contents (
    intent_id   uuid primary key,
    recipient   text not null,
    content     text not null,                      -- canonical JSON
    collapse_id text not null,
    rendered    bytea not null                      -- what every attempt sends, byte for byte
);
alter table contents alter column rendered set storage external;

-- Everything open that somebody must look at again: due (send at "at"), leased (takeover at "at"), unknown (since "at").
-- Open intents that are not here were claimed at admission and stand in claim_batches.
create table agenda (
    intent_id   uuid primary key,
    channel     text not null,
    kind        text not null check (kind in ('due', 'leased', 'unknown')),
    priority    smallint not null,
    at          timestamptz not null,
    expires_at  timestamptz,
    fact        bytea not null,
    revision    int not null,
    generation  int not null,                       -- the intent's, when this was written: an older row speaks of nothing
    claim_token uuid,                               -- leased: the wish that was granted; null for a takeover
    look_at     timestamptz                         -- unknown: the next look-up, where there was one
) with (fillfactor = 70);
create index agenda_by_channel on agenda (channel, kind, priority, at);
create index agenda_to_look_up on agenda (channel, coalesce(look_at, at)) where kind = 'unknown';
create index agenda_by_time on agenda (kind, at);
create index agenda_by_expiry on agenda (expires_at) where kind = 'due' and expires_at is not null;

-- One row per admission batch that was claimed in the same statement: the lease of many intents for the price of one row.
create table claim_batches (
    id          uuid primary key,
    owner       text not null,
    lease_until timestamptz not null,
    intents     uuid[] not null
);
alter table claim_batches alter column intents set storage external;

create table attempts (
    intent_id   uuid not null,
    generation  int not null,
    owner       text not null,
    started_at  timestamptz not null,
    ended_at    timestamptz not null,
    result      text not null,
    phase       text not null,
    code        text not null,
    message     text not null,
    provider_id text not null,
    state       text not null,                      -- the state that this attempt's settlement led to
    primary key (intent_id, generation)
);

-- Transitions that no attempt explains: takeover, cancel, expiry, supersession, evidence, decisions.
create table changes (
    intent_id   uuid not null,
    id          bigint generated always as identity,
    generation  int not null,
    from_state  text not null,
    to_state    text not null,
    at          timestamptz not null,
    cause       text not null,
    actor       text not null,
    detail      text not null,
    primary key (intent_id, id)
);

create table evidence (
    intent_id   uuid not null,
    id          bigint generated always as identity,
    at          timestamptz not null,
    source      text not null,
    generation  int not null,
    result      text not null,
    code        text not null,
    message     text not null,
    provider_id text not null,
    settled     boolean not null,
    primary key (intent_id, id)
);

create table refusals (
    id          uuid primary key,
    at          timestamptz not null,
    verdict     text not null,
    code        text not null,
    message     text not null,
    fields      text[] not null,
    caller      text not null,
    channel     text not null,
    key         text not null,
    revision    int not null,
    intent_id   uuid,
    subject     text not null,
    stream_seq  bigint not null,
    sample      text not null
);
create index refusals_by_time on refusals (at, id); -- their ids have no order

-- Outcome events that are not on the broker yet: one row per statement that made any, so that an event costs no row; one array a
-- column, so that it costs no text either. The relay makes them into JSON.
create table outbox (
    id              bigint generated always as identity primary key,
    at              timestamptz not null default now(),
    subjects        uuid[] not null,                -- the intents that came to an outcome, or the refusals
    standing        uuid[],                         -- refusals: the intents that stood in the way; null: these are intents
    generations     int[] not null,
    whats           text[] not null,
    callers         text[] not null,
    channels        text[] not null,
    keys            text[] not null,
    revisions       int[] not null,
    provider_ids    text[] not null,
    codes           text[] not null,
    dead_recipients boolean[] not null,
    messages        text[],                         -- refusals: the sentence that says what to do
    stream_seqs     bigint[]                        -- refusals: where the request stood in the stream; 0: it was submitted
);
alter table outbox alter column subjects set storage external;

-- Who relays the outbox; one at a time keeps the events of an intent in order.
create table duties (
    name        text primary key,
    owner       text not null,
    lease_until timestamptz not null
);

-- What is known of a channel beyond one process: a pause outlives the dispatcher that found the reason.
create table channel_states (
    channel      text primary key,
    paused_until timestamptz,                       -- null: not paused; infinity: until resumed
    code         text not null,
    reason       text not null,
    since        timestamptz not null,
    key_scope    text not null,
    pauses       int not null                       -- in a row, without an accepted send between
);

-- +goose Down
drop table channel_states, duties, outbox, refusals, evidence, changes, attempts, claim_batches, agenda, contents, intents, keys_older, keys, watermark;
