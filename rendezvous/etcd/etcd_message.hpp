// Etcd's JSON gateway (version 3 of its interface, /v3/…): the requests that are made of it, how its answers
// are read, and what a job's keys there say. Pure.
//
// Numbers of 64 bits are texts in that JSON, keys and values are base64, and a member that is zero, empty or
// false is left out. Whatever does not have the form of an answer is none: the functions that read return
// nothing then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/membership/member_list.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace job {

std::string to_base64(std::string_view bytes);
// Nothing for a text that to_base64 does not write.
std::optional<std::string> from_base64(std::string_view text);

using LeaseId = std::int64_t;  // never 0

// EtcdRequest is a body, and where it is sent.
struct EtcdRequest {
    const char* path;
    std::string body;
};

EtcdRequest grant_lease(std::int64_t ttl_s);
EtcdRequest keep_lease(LeaseId lease);
EtcdRequest revoke_lease(LeaseId lease);
EtcdRequest read_key(const std::string& key);

// KeyTest says what a key is to be bound to, or when it is to have changed last (0: there is none).
struct KeyTest {
    enum class Kind { lease, change };
    Kind kind = Kind::change;
    std::string key;
    std::int64_t number = 0;
};
struct KeyWrite {
    std::string key;
    std::string value;
    LeaseId lease = 0;
};
// Writes all of these if all of that is so, else nothing.
EtcdRequest write_keys(const std::vector<KeyTest>& tests, const std::vector<KeyWrite>& writes);
// Asks to be told of what happens to the key from this revision on.
EtcdRequest watch_key(const std::string& key, std::int64_t revision);

struct Lease {
    LeaseId id = 0;
    std::int64_t ttl_s = 0;  // 0 where a lease to be kept is over
};
std::optional<Lease> read_granted(std::string_view answer);
std::optional<Lease> read_kept(std::string_view answer);

struct KeyState {
    std::int64_t revision = 0;         // of the whole store, when it was read
    std::optional<std::string> value;  // nothing: there is no such key
    LeaseId lease = 0;
    std::int64_t change = 0;  // the revision of its last change; 0 where there is no such key
};
std::optional<KeyState> read_key_state(std::string_view answer);

// Reads the answer to write_keys: whether they were written.
std::optional<bool> read_written(std::string_view answer);

// Tells whether a message of a watch says that something happened, the end of the watch included.
bool is_news(std::string_view message);

// EtcdRefusal says in one line why an answer is no success. `is_final`: to ask again is in vain.
struct EtcdRefusal {
    std::string words;  // etcd's own, else the beginning of the body; may be any bytes
    bool is_final = false;
};
EtcdRefusal read_refusal(int http_status, std::string_view body);

// HostRecord is what a job's key says of the agent that hosts, as JSON.
struct HostRecord {
    std::string endpoint;  // HOST:PORT of its coordinator; empty until that listens
    std::string run_id;
    std::string nodes;  // how many the job has, as --nnodes does
    std::string host;   // the name of its machine
    int pid = 0;
    std::uint64_t nonce = 0;  // Hello's
    std::string version;      // of ddprun
    std::string started;      // when it was elected, for people
};
BOOST_DESCRIBE_STRUCT(HostRecord, (), (endpoint, run_id, nodes, host, pid, nonce, version, started))

// A job's key where its host is named: below the prefix, apart from those of all other run ids.
std::string host_key(const std::string& prefix, const std::string& run_id);
// Its key where the newest round is recorded.
std::string round_key(const std::string& prefix, const std::string& run_id);

std::string to_json(const HostRecord& record);

// Nothing for what no agent has written.
std::optional<HostRecord> read_host_record(std::string_view json);

// Tells whether it was written by the agent of one of these members.
bool is_one_of(const HostRecord& record, const MemberList& list, const std::vector<int>& group_ranks);

// Its endpoint, parsed; nothing until that is known.
std::optional<Endpoint> endpoint_of(const HostRecord& record);

}  // namespace job
}  // namespace ddprun
