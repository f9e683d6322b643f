// RoundRecord: the newest round of a job of which a register outside the job (etcd) was told; it decides who may lead the
// job when its coordinator is lost. Pure.
//
// A round from which a member of the last one is left out, though it may live, does not begin before it is recorded;
// other rounds are recorded while they run. So whoever knows of no older round than the record has not been left out.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/membership/member_list.hpp"

namespace ddprun::inline job {

struct RoundRecord {
    std::string job_id;
    int epoch = 0;
    int round = 0;
    std::string host;      // who has written it: its machine, …
    std::int64_t pid = 0;  // … and its agent

    std::pair<int, int> version() const { return {epoch, round}; }
    bool operator==(const RoundRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(RoundRecord, (), (job_id, epoch, round, host, pid))

// What a coordinator wants to be recorded.
struct RecordWish {
    RoundRecord record;
    // Where nothing is recorded, or by somebody else, it may be begun anew until then; nothing: never, because somebody
    // who was lost may lead the job by now.
    std::optional<std::chrono::steady_clock::time_point> renew_until;

    bool operator==(const RecordWish&) const = default;
};

// What has come of that.
struct RecordNews {
    enum class Kind {
        recorded,
        trouble,  // not yet, for this cause
        refused,  // nor will it be, for this cause
    };
    Kind kind = Kind::recorded;
    RoundRecord record;
    std::string cause;
};

// Whether a member of the last round that an agent has taken part in may lead the job from there.
inline bool may_lead(const RoundRecord& record, const MemberList& last) {
    return record.job_id == last.job_id && record.version() <= last.version();
}

}  // namespace ddprun::inline job
