// HostRecord: what a job's key in etcd says of the agent that hosts, as JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/membership/member_list.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline job {

struct HostRecord {
    std::string endpoint;  // HOST:PORT of its coordinator; empty until that listens
    std::string run_id;
    std::string nodes;  // how many the job has, as --nnodes does
    std::string host;   // the name of its machine
    int pid = 0;
    std::string version;  // of ddprun
    std::string started;  // when it was elected, for people
};
BOOST_DESCRIBE_STRUCT(HostRecord, (), (endpoint, run_id, nodes, host, pid, version, started))

// The key of a job: below the prefix, apart from those of all other run ids.
std::string host_key(const std::string& prefix, const std::string& run_id);
// Likewise, where its newest round is recorded.
std::string round_key(const std::string& prefix, const std::string& run_id);

std::string to_json(const HostRecord& record);

// Nothing for what no agent has written.
std::optional<HostRecord> read_host_record(std::string_view json);

// Whether it is of the agent of one of these members.
bool is_one_of(const HostRecord& record, const MemberList& list, const std::vector<int>& group_ranks);

// Where it hosts; nothing until that is known.
std::optional<Endpoint> endpoint_of(const HostRecord& record);

}  // namespace ddprun::inline job
