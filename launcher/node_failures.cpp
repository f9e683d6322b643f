#include "launcher/node_failures.hpp"

#include <algorithm>

namespace ddprun {

void NodeFailures::suspect(int rank) {
    if (!is_suspect(rank)) suspects_.push_back(rank);
}

bool NodeFailures::is_suspect(int rank) const {
    return std::find(suspects_.begin(), suspects_.end(), rank) != suspects_.end();
}

NodeFailures::Record* NodeFailures::add(Failure failure) {
    if (!records_.empty() && !is_suspect(failure.rank)) return nullptr;
    records_.push_back({std::move(failure), {}});
    return &records_.back();
}

const NodeFailures::Record* NodeFailures::first() const {
    for (const int rank : suspects_) {
        const auto record = std::find_if(records_.begin(), records_.end(),
                                         [rank](const Record& one) { return one.failure.rank == rank; });
        if (record != records_.end()) return &*record;
    }
    return records_.empty() ? nullptr : &records_.front();
}

}  // namespace ddprun
