// What etcd's JSON gateway (version 3 of its interface, /v3/…) is asked, and what it answers. Pure.
//
// Numbers of 64 bits are texts in that JSON, keys and values are base64, and a member that is zero, empty or false is
// left out. Whatever does not have the form of an answer is none: the functions that read return nothing then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline job {

using LeaseId = std::int64_t;  // never 0

// A body, and where it is sent.
struct EtcdRequest {
    const char* path;
    std::string body;
};

EtcdRequest grant_lease(std::int64_t ttl_s);
EtcdRequest keep_lease(LeaseId lease);
EtcdRequest revoke_lease(LeaseId lease);
EtcdRequest read_key(const std::string& key);

// What a key is to be bound to, or when it is to have changed last (0: there is none).
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
// Is told of what happens to the key from this revision on.
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

// Of write_keys: whether they were written.
std::optional<bool> read_written(std::string_view answer);

// Whether a message of a watch says that something happened, the end of the watch included.
bool is_news(std::string_view message);

// One line about an answer that is no success. `is_final`: to ask again is in vain.
struct EtcdRefusal {
    std::string words;  // etcd's own, else the beginning of the body; may be any bytes
    bool is_final = false;
};
EtcdRefusal read_refusal(int http_status, std::string_view body);

}  // namespace ddprun::inline job
