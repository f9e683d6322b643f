// NodeFailures: which worker of this node failed first. Pure.
//
// By FailureOrder, and by what the workers say of each other (culprit.hpp), as far as it concerns failures of
// this node. The Coordinator decides by the same rules among all nodes.
#pragma once

#include <list>
#include <string>

#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/coordinator/failure_order.hpp"

namespace ddprun {

class NodeFailures {
  public:
    struct Record {
        Failure failure;
        std::string error_file_text;  // the worker's error file as it is; empty without one
    };

    // See FailureOrder.
    void suspect(int rank) { order_.suspect(rank); }
    void contend(int rank) { order_.contend(rank); }
    bool is_suspect(int rank) const { return order_.is_suspect(rank); }
    bool is_contender(int rank) const { return order_.is_contender(rank); }

    // The worker has failed by itself. Its record, to be filled in further, if it may be the first; it stays
    // where it is.
    Record* add(Failure failure);

    // As far as is known; nullptr if none has failed.
    const Record* first() const;

  private:
    FailureOrder order_;
    std::list<Record> records_;
};

}  // namespace ddprun
