#include "rendezvous/etcd/etcd_message.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace job {
namespace {

using boost::json::array;
using boost::json::object;

// An answer to a request of ours nests about half as deep.
constexpr std::size_t kMaxAnswerDepth = 12;
constexpr std::size_t kMaxWords = 300;

constexpr std::size_t kMaxRecordDepth = 2;

struct HostRecordRules : JsonRules {
    static constexpr std::size_t kMaxText = 1024;
};

EtcdRequest request(const char* path, const object& body) { return {path, boost::json::serialize(body)}; }

std::string text(std::int64_t number) { return std::to_string(number); }

const object* member(const object* in, std::string_view name) {
    const boost::json::value* found = in != nullptr ? in->if_contains(name) : nullptr;
    return found != nullptr ? found->if_object() : nullptr;
}

// 0 where it is left out, nothing where it is no number.
std::optional<std::int64_t> number(const object& in, std::string_view name) {
    const boost::json::value* found = in.if_contains(name);
    if (found == nullptr) return 0;
    if (const auto* plain = found->if_int64()) return *plain;
    const boost::json::string* digits = found->if_string();
    return digits != nullptr ? whole_number<std::int64_t>({digits->data(), digits->size()}) : std::nullopt;
}

// No lease is asked for that is as long, and nobody keeps one that seldom.
constexpr std::int64_t kMaxTtl = std::int64_t{7} * 24 * 3600;

std::optional<Lease> lease_of(const object* in) {
    if (in == nullptr) return std::nullopt;
    const auto id = number(*in, "ID"), ttl = number(*in, "TTL");
    if (!id || *id == 0 || !ttl || *ttl < 0 || *ttl > kMaxTtl) return std::nullopt;
    return Lease{*id, *ttl};
}

// Those of gRPC that say: not this, not by you, not here.
bool is_final_code(std::int64_t code) {
    constexpr std::int64_t kInvalidArgument = 3, kPermissionDenied = 7, kUnimplemented = 12,
                           kUnauthenticated = 16;
    return code == kInvalidArgument || code == kPermissionDenied || code == kUnimplemented ||
           code == kUnauthenticated;
}

bool is_final_status(int status) {
    constexpr int kTimeout = 408, kTooMany = 429;
    return status >= 400 && status < 500 && status != kTimeout && status != kTooMany;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
    std::string text(::sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
    ::sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                        bytes.size(), sodium_base64_VARIANT_ORIGINAL);
    text.pop_back();  // a zero
    return text;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string bytes(text.size(), '\0');
    std::size_t size = 0;
    if (::sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                            text.size(), nullptr, &size, nullptr, sodium_base64_VARIANT_ORIGINAL) != 0)
        return std::nullopt;
    bytes.resize(size);
    if (to_base64(bytes) != text) return std::nullopt;  // libsodium reads some bytes that are no letters
    return bytes;
}

EtcdRequest grant_lease(std::int64_t ttl_s) { return request("/v3/lease/grant", {{"TTL", text(ttl_s)}}); }

EtcdRequest keep_lease(LeaseId lease) { return request("/v3/lease/keepalive", {{"ID", text(lease)}}); }

EtcdRequest revoke_lease(LeaseId lease) { return request("/v3/lease/revoke", {{"ID", text(lease)}}); }

EtcdRequest read_key(const std::string& key) { return request("/v3/kv/range", {{"key", to_base64(key)}}); }

EtcdRequest write_keys(const std::vector<KeyTest>& tests, const std::vector<KeyWrite>& writes) {
    array compare, success;
    for (const KeyTest& test : tests) {
        const bool is_lease = test.kind == KeyTest::Kind::lease;
        compare.push_back(object{{"target", is_lease ? "LEASE" : "MOD"},
                                 {is_lease ? "lease" : "mod_revision", text(test.number)},
                                 {"key", to_base64(test.key)},
                                 {"result", "EQUAL"}});
    }
    for (const KeyWrite& write : writes) {
        success.push_back(object{{"request_put", object{{"key", to_base64(write.key)},
                                                        {"value", to_base64(write.value)},
                                                        {"lease", text(write.lease)}}}});
    }
    return request("/v3/kv/txn", {{"compare", std::move(compare)}, {"success", std::move(success)}});
}

EtcdRequest watch_key(const std::string& key, std::int64_t revision) {
    return request("/v3/watch",
                   {{"create_request", object{{"key", to_base64(key)}, {"start_revision", text(revision)}}}});
}

std::optional<Lease> read_granted(std::string_view answer) {
    const auto root = parse_json_object(answer, kMaxAnswerDepth);
    const auto lease = lease_of(root ? &*root : nullptr);
    return lease && lease->ttl_s > 0 ? lease : std::nullopt;
}

std::optional<Lease> read_kept(std::string_view answer) {
    const auto root = parse_json_object(answer, kMaxAnswerDepth);
    return lease_of(member(root ? &*root : nullptr, "result"));
}

std::optional<KeyState> read_key_state(std::string_view answer) {
    const auto root = parse_json_object(answer, kMaxAnswerDepth);
    const object* header = member(root ? &*root : nullptr, "header");
    const auto revision = header != nullptr ? number(*header, "revision") : std::nullopt;
    if (!revision || *revision < 0 || *revision == std::numeric_limits<std::int64_t>::max())
        return std::nullopt;
    KeyState state{.revision = *revision, .value = {}, .lease = 0, .change = 0};
    const boost::json::value* listed = root->if_contains("kvs");
    if (listed == nullptr) return state;
    const array* pairs = listed->if_array();
    const object* pair = pairs != nullptr && pairs->size() == 1 ? pairs->front().if_object() : nullptr;
    const auto lease = pair != nullptr ? number(*pair, "lease") : std::nullopt;
    const auto change = pair != nullptr ? number(*pair, "mod_revision") : std::nullopt;
    if (!lease || !change || *change <= 0) return std::nullopt;
    const boost::json::value* value = pair->if_contains("value");
    const boost::json::string* encoded = value != nullptr ? value->if_string() : nullptr;
    if (value != nullptr && encoded == nullptr) return std::nullopt;
    state.value = from_base64(encoded != nullptr ? std::string_view(encoded->data(), encoded->size()) : "");
    state.lease = *lease;
    state.change = *change;
    return state.value ? std::optional(state) : std::nullopt;
}

std::optional<bool> read_written(std::string_view answer) {
    const auto root = parse_json_object(answer, kMaxAnswerDepth);
    if (member(root ? &*root : nullptr, "header") == nullptr) return std::nullopt;
    const boost::json::value* succeeded = root->if_contains("succeeded");
    if (succeeded == nullptr) return false;
    const bool* said = succeeded->if_bool();
    return said != nullptr ? std::optional(*said) : std::nullopt;
}

bool is_news(std::string_view message) {
    const auto root = parse_json_object(message, kMaxAnswerDepth);
    const object* result = member(root ? &*root : nullptr, "result");
    if (result == nullptr || result->contains("events") || result->contains("canceled")) return true;
    return !result->contains("created");
}

EtcdRefusal read_refusal(int http_status, std::string_view body) {
    if (const auto root = parse_json_object(body, kMaxAnswerDepth, true)) {
        const auto code = number(*root, "code");
        for (const char* name : {"message", "error"}) {
            const boost::json::value* said = root->if_contains(name);
            const boost::json::string* words = said != nullptr ? said->if_string() : nullptr;
            if (words == nullptr || words->empty() || !code || *code == 0) continue;
            return {cut_text({words->data(), words->size()}, kMaxWords), is_final_code(*code)};
        }
    }
    std::string_view first = body.substr(0, body.find('\n'));
    return {cut_text(std::string(first), kMaxWords), is_final_status(http_status)};
}

std::string host_key(const std::string& prefix, const std::string& run_id) {
    return fmt::format("{}/run_{}/host", prefix, run_id);
}

std::string round_key(const std::string& prefix, const std::string& run_id) {
    return fmt::format("{}/run_{}/round", prefix, run_id);
}

std::string to_json(const HostRecord& record) {
    return boost::json::serialize(json_of<HostRecordRules>(record));
}

std::optional<HostRecord> read_host_record(std::string_view json) {
    const auto root = parse_json_object(json, kMaxRecordDepth);
    HostRecord record;
    if (!root || !take_members<HostRecordRules>(*root, record)) return std::nullopt;
    if (!record.endpoint.empty() && !endpoint_of(record)) return std::nullopt;
    return record;
}

bool is_one_of(const HostRecord& record, const MemberList& list, const std::vector<int>& group_ranks) {
    return std::any_of(list.members.begin(), list.members.end(), [&](const Member& one) {
        return one.host == record.host && one.pid == record.pid && one.nonce == record.nonce &&
               std::find(group_ranks.begin(), group_ranks.end(), one.group_rank) != group_ranks.end();
    });
}

std::optional<Endpoint> endpoint_of(const HostRecord& record) {
    const auto endpoint = parse_endpoint(record.endpoint, 0);
    return endpoint && endpoint->port != 0 ? endpoint : std::nullopt;
}

}  // namespace job
}  // namespace ddprun
