// NodeFailures: which worker of this node failed first. Pure.
//
// It is the first whose end was a failure, unless others had been seen to end before that, whose ends are
// known only later (see WorkerDying): then the first of these whose end is a failure. The Coordinator decides
// by the same rule among all nodes.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "rendezvous/control_message.hpp"

namespace ddprun {

class NodeFailures {
  public:
    struct Record {
        Failure failure;
        std::string error_file_text;  // the worker's error file as it is; empty without one
    };

    // The worker of this rank ends by itself. To be called in the order in which that was seen, as long as
    // no failure was told and nobody was told to end.
    void suspect(int rank);
    bool is_suspect(int rank) const;

    // The worker has failed by itself. Its record, to be filled in further, if it may be the first; it stays
    // where it is.
    Record* add(Failure failure);

    // As far as is known; nullptr if none has failed.
    const Record* first() const;

  private:
    std::vector<int> suspects_;
    std::list<Record> records_;
};

}  // namespace ddprun
