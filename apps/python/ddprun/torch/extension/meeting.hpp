// Meeting makes the store of a process group the one that the library meets over.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "apps/python/ddprun/torch/extension/failure.hpp"
#include "collectives/ddprun_collectives.h"

namespace ddprun {
inline namespace app {

// Meeting is what the library's calls get as their context; the library says when it has no more use for it.
// The store is a clone, since waiting blocks the connection it is done on.
struct Meeting {
    c10::intrusive_ptr<c10d::Store> store;
    static std::string& error() {
        thread_local std::string text;
        return text;
    }
};

// Runs body(store); what it throws is kept for the library to ask about.
template <class Body>
int with_store(void* context, Body body) noexcept {
    try {
        body(*static_cast<Meeting*>(context)->store);
        return DDPRUN_OK;
    } catch (const c10::Error& error) {
        Meeting::error() = error.what_without_backtrace();
    } catch (const std::exception& error) {
        Meeting::error() = error.what();
    } catch (...) {
        Meeting::error() = "the store failed";
    }
    return DDPRUN_SYSTEM;
}

inline int store_set(void* context, const char* key, const void* value, size_t bytes) {
    return with_store(context, [&](c10d::Store& store) {
        const auto* first = static_cast<const uint8_t*>(value);
        store.set(key, std::vector<uint8_t>(first, first + bytes));
    });
}

inline int store_get(void* context, const char* key, int64_t timeout_ms,
                     void (*take)(void*, const void*, size_t), void* sink) {
    const auto limit = std::chrono::milliseconds(timeout_ms);
    const auto begun = std::chrono::steady_clock::now();
    const int code = with_store(context, [&](c10d::Store& store) {
        store.wait({key}, limit);
        const std::vector<uint8_t> value = store.get(key);
        take(sink, value.data(), value.size());
    });
    // Every kind of store has an exception of its own for this.
    return code != DDPRUN_OK && std::chrono::steady_clock::now() - begun >= limit ? DDPRUN_TIMED_OUT : code;
}

inline int store_add(void* context, const char* key, int64_t amount, int64_t* sum) {
    return with_store(context, [&](c10d::Store& store) { *sum = store.add(key, amount); });
}

inline int store_remove(void* context, const char* key) {
    return with_store(context, [&](c10d::Store& store) { store.deleteKey(key); });
}

inline const char* store_error(void* /*context*/) { return Meeting::error().c_str(); }

inline void store_release(void* context) { delete static_cast<Meeting*>(context); }

// Returns the place where the ranks of this start of the workers meet. torchrun's store has all that earlier
// starts have written. Starts differ by the number of the restart or, where nodes have come or gone, by the
// number of ranks or nodes.
inline c10::intrusive_ptr<c10d::Store> place_of_attempt(const c10::intrusive_ptr<c10d::Store>& store) {
    std::string name = "ddprun";
    for (const char* variable : {"TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE", "GROUP_WORLD_SIZE"}) {
        const char* value = std::getenv(variable);
        name += c10::str('/', value == nullptr ? "" : value);
    }
    return c10::make_intrusive<c10d::PrefixStore>(name, store->clone());
}

// Joins over a clone of `store`; throws RankError.
inline ddprun_communicator* join(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                 const ddprun_options& options) {
    const ddprun_store place{sizeof(ddprun_store),
                             new Meeting{place_of_attempt(store)},
                             store_set,
                             store_get,
                             store_add,
                             store_remove,
                             store_error,
                             store_release};
    ddprun_communicator* made = nullptr;
    require(ddprun_join(&place, rank, size, &options, &made));
    return made;
}

}  // namespace app
}  // namespace ddprun
