// HollowedFile: gives the room of a file's middle back to a disk that is full, so that its end can still be written.
//
// What is left out becomes a hole: nothing moves, so those who follow the file or append to it notice nothing. Before
// the hole stands a line that says how much it was; who reads it passes over the hole (SEEK_DATA). Each time half of
// what is behind the hole goes. Used by one thread; blocking, short.
#pragma once

#include <sys/types.h>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

class HollowedFile {
  public:
    // `fd` stays the caller's.
    explicit HollowedFile(int fd);

    // False if nothing more can go, or if the file system knows no holes.
    bool give_room();

  private:
    OwnedDescriptor file_;  // without the caller's O_APPEND
    off_t hole_begin_ = 0;
    off_t hole_end_ = 0;
};

}  // namespace ddprun::inline launch
