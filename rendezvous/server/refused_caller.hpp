// RefusedCaller: what auditors hear of callers that were turned away from a port of the job. A plain value.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>

namespace ddprun {
inline namespace job {

struct RefusedCaller {
    std::string address;     // empty: of more sources than are told apart
    std::int64_t user = -1;  // of a process of this machine; -1: the caller is on another one
    std::string reason;
    int calls = 0;         // of this source, since the last one that was told
    bool is_first = true;  // of this source
};
BOOST_DESCRIBE_STRUCT(RefusedCaller, (), (address, user, reason, calls, is_first))

}  // namespace job
}  // namespace ddprun
