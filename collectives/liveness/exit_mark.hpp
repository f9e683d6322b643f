// ExitMark: does something when this process calls exit() or returns from main(), as leaving a mark in
// shared memory.
//
// So that others can tell a process that ended without destroying its communicator from one that was killed.
// _exit(), exec and signals leave no mark, nor does a forked child's exit().
#pragma once

#include <functional>
#include <memory>

namespace ddprun::inline detail {

class ExitMark {
  public:
    // Calls mark() at exit, until this object's end; it must not wait for anybody. Each object leaves some
    // 100 bytes behind in the process's list of things to do at exit, which cannot be taken back.
    explicit ExitMark(std::function<void()> mark);
    ~ExitMark();
    ExitMark(const ExitMark&) = delete;
    ExitMark& operator=(const ExitMark&) = delete;

  private:
    struct Cell;
    std::shared_ptr<Cell> cell_;  // shared with the handler
};

}  // namespace ddprun::inline detail
