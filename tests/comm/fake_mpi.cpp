// Stands for a libmezzo-mpi.so that was built for another MPI, or for another version of Mezzo
// with -DFAKE_VERSION=0.
#include "../../tensor/comm/transport.h"

#ifndef FAKE_VERSION
#  define FAKE_VERSION mezzo::comm::detail::kTransportVersion
#endif

extern "C" {
__attribute__((
    visibility("default"))) extern const mezzo::comm::detail::TransportLibrary mezzo_transport{
    FAKE_VERSION, "MPICH", "4.0.2", nullptr};
}
