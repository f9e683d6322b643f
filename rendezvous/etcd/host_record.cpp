#include "rendezvous/etcd/host_record.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/codec/json_codec.hpp"

namespace ddprun::inline job {
namespace {

constexpr std::size_t kMaxRecordDepth = 2;

struct HostRecordRules : JsonRules {
    static constexpr std::size_t kMaxText = 1024;
};

}  // namespace

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
        return one.host == record.host && one.pid == record.pid &&
               std::find(group_ranks.begin(), group_ranks.end(), one.group_rank) != group_ranks.end();
    });
}

std::optional<Endpoint> endpoint_of(const HostRecord& record) {
    const auto endpoint = parse_endpoint(record.endpoint, 0);
    return endpoint && endpoint->port != 0 ? endpoint : std::nullopt;
}

}  // namespace ddprun::inline job
