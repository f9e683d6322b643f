#include "rendezvous/socket.hpp"
