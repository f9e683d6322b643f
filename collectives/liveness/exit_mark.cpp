#include "collectives/liveness/exit_mark.hpp"

#include <cxxabi.h>

#include <mutex>
#include <utility>

#include "rendezvous/system/own_process.hpp"

extern "C" void* __dso_handle;  // the library or program that this is part of

namespace ddprun::inline detail {

struct ExitMark::Cell {
    std::mutex mutex;
    std::function<void()> mark;  // empty when the ExitMark has ended
    ProcessNumber process = this_process();

    // The handler, with a pointer to a shared_ptr of its own.
    static void at_exit(void* argument) {
        const std::unique_ptr<std::shared_ptr<Cell>> own(static_cast<std::shared_ptr<Cell>*>(argument));
        Cell& cell = **own;
        // Held by somebody: then the ExitMark is just ending, and exit() must not wait for a thread that may
        // not run any more.
        const std::unique_lock lock(cell.mutex, std::try_to_lock);
        if (lock && cell.mark && cell.process == this_process()) cell.mark();
    }
};

ExitMark::ExitMark(std::function<void()> mark) : cell_(std::make_shared<Cell>()) {
    cell_->mark = std::move(mark);
    auto own = std::make_unique<std::shared_ptr<Cell>>(cell_);
    // Unlike atexit(), it passes an argument. Where it fails, an exit looks like a death.
    if (abi::__cxa_atexit(&Cell::at_exit, own.get(), &__dso_handle) == 0) static_cast<void>(own.release());
}

ExitMark::~ExitMark() {
    const std::lock_guard lock(cell_->mutex);
    cell_->mark = nullptr;
}

}  // namespace ddprun::inline detail
