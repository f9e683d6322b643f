#include "launcher/agent/node_failures.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/culprit.hpp"

namespace ddprun {

NodeFailures::Record* NodeFailures::add(Failure failure) {
    if (!records_.empty() && !is_suspect(failure.rank) && !is_contender(failure.rank)) return nullptr;
    records_.push_back({std::move(failure), {}});
    return &records_.back();
}

const NodeFailures::Record* NodeFailures::first() const {
    if (records_.empty()) return nullptr;
    const Record* first = &records_.front();
    std::vector<const Failure*> known;
    for (const Record& record : records_) {
        if (order_.is_before(record.failure, first->failure)) first = &record;
        known.push_back(&record.failure);
    }
    const int culprit = culprit_of(first->failure, known, [](int) { return std::nullopt; }).rank;
    const auto found = std::find_if(records_.begin(), records_.end(), [culprit](const Record& record) {
        return record.failure.rank == culprit;
    });
    return &*found;
}

}  // namespace ddprun
