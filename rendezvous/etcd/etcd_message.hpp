// EtcdRequest is a request to etcd's JSON gateway (version 3 of its interface, /v3/…). The functions make
// them, read the answers, and say what a job's keys there hold. Pure.
//
// Numbers of 64 bits are texts in that JSON, keys and values are base64, and a member that is zero, empty or
// false is left out. Where a text does not have the form of an answer, the functions that read return
// nothing.
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
// Decodes base64; nothing for a text that to_base64() does not write.
std::optional<std::string> from_base64(std::string_view text);

using LeaseId = std::int64_t;  // never 0

// EtcdRequest is a body, and the path that it is sent to.
struct EtcdRequest {
    const char* path;
    std::string body;
};

EtcdRequest grant_lease(std::int64_t ttl_s);
EtcdRequest keep_lease(LeaseId lease);
EtcdRequest revoke_lease(LeaseId lease);
EtcdRequest read_key(const std::string& key);

// KeyTest is a condition on a key: its lease, or the revision of its last change (0: there is no such key).
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
// Makes a request that writes all the keys if all tests hold, else none.
EtcdRequest write_keys(const std::vector<KeyTest>& tests, const std::vector<KeyWrite>& writes);
// Makes a request to be told of what happens to the key from this revision on.
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

// Reads the answer to write_keys(): whether the keys were written.
std::optional<bool> read_written(std::string_view answer);

// Says whether a message of a watch tells of an event, or of the watch's end.
bool is_news(std::string_view message);

// EtcdRefusal says in one line why an answer is no success. `is_final`: a repetition is in vain.
struct EtcdRefusal {
    std::string words;  // etcd's own, else the beginning of the body; may be any bytes
    bool is_final = false;
};
EtcdRefusal read_refusal(int http_status, std::string_view body);

// HostRecord is what a job's key says of the agent that hosts, as JSON.
struct HostRecord {
    std::string endpoint;  // HOST:PORT of its coordinator; empty until the coordinator listens
    std::string run_id;
    std::string nodes;  // how many the job has, as --nnodes does
    std::string host;   // the name of its machine
    int pid = 0;
    std::uint64_t nonce = 0;  // of the agent's Hello
    std::string version;      // of ddprun
    std::string started;      // when the agent was elected, for people
};
BOOST_DESCRIBE_STRUCT(HostRecord, (), (endpoint, run_id, nodes, host, pid, nonce, version, started))

// Returns the job's key that names its host: below the prefix, apart from the keys of all other run ids.
std::string host_key(const std::string& prefix, const std::string& run_id);
// Returns the job's key that records its newest round.
std::string round_key(const std::string& prefix, const std::string& run_id);

std::string to_json(const HostRecord& record);

// Reads a HostRecord; nothing for a text that no agent has written.
std::optional<HostRecord> read_host_record(std::string_view json);

// Says whether the agent of one of these members wrote the record.
bool is_one_of(const HostRecord& record, const MemberList& list, const std::vector<int>& group_ranks);

// Returns the record's endpoint, parsed; nothing until it is known.
std::optional<Endpoint> endpoint_of(const HostRecord& record);

}  // namespace job
}  // namespace ddprun
